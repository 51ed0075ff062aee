"""Search if some sessions are on a server: the local index and the server each search what they have.

The server searches by words and, if it has pgvector, by meaning: recent sessions without vectors get them first, once
for all users. Without pgvector, the newest messages of recent sessions are compared here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from itertools import islice

from cortext.index.search.models import Models
from cortext.index.search.query import Query
from cortext.index.sessions import Row
from cortext.model.message import Message
from cortext.model.session import Session
from cortext.services.assistant.backfill import Embedder, backfill, is_embedded
from cortext.services.library.listing import Listing, is_in_order, order_filter
from cortext.services.library.search import Found, Match, Search, match_of, session_filters
from cortext.services.library.server_rows import ServerSource

Hit = tuple[float, Session, Message]  # with its score

RECENT_SESSIONS = 20  # searched by meaning
NEWEST_MESSAGES = 60  # of each of them
MEANING = 0.7  # the weight of a match by meaning, where a match by words has 1
LEAST_SIMILARITY = 0.35
CLAIM_SECONDS = 60.0  # the longest time that one process may take for the vectors of a session


class ServedSearch(Search):
    """Search in the sessions of a listing, some of them on a server."""

    def __init__(self, listing: Listing, folder: str, models: Models, embedder: Callable[[], Embedder]) -> None:
        super().__init__(listing, folder, models)
        self._embedder = embedder
        self._worded = False  # whether a message on a server has the words of the last query

    @property
    def by_meaning(self) -> bool:
        """See Search.by_meaning; messages on a server count too."""
        return super().by_meaning and not self._worded

    @property
    def missing(self) -> list[str]:
        """See Search.missing; a server does not tell which words it has."""
        return [] if self._worded else super().missing

    def _served(
        self, query: Query, limit: int, per_session: int, exact: bool, leave_out: Collection[str]
    ) -> list[Found]:
        self._worded = False
        check = self._check(query, ())
        found: list[Found] = []
        project = query.filters.get("project", "")
        projects = self._listing.projects_of(project) if project else None
        for source in self._listing.servers.values() if query.said else ():
            workspace = query.filters.get("workspace", "").casefold()
            if workspace and workspace != self._listing.labels.get(source.root, "").casefold():
                continue
            question = partial(self._hits, source, query, limit * max(1, per_session), exact)
            hits = self._listing.ask(source, question) or {}
            groups: dict[str, list[Hit]] = {}
            for hit in sorted(hits.values(), key=lambda hit: (hit[0], hit[1].last_active), reverse=True):
                row = source.row(hit[1])
                if row.id in leave_out or not _matches_filters(query, row) or check.is_copy(hit[2]):
                    continue
                if projects is not None and row.project not in projects:
                    continue
                if check.allows(hit[2], row):
                    groups.setdefault(row.id, []).append(hit)
            for group in islice(groups.values(), limit):
                matches = [self._match_of(source, query, *hit) for hit in group[:per_session]]
                found.append(Found(source.row(group[0][1]), matches, round(group[0][0], 4)))
        return sorted(found, key=lambda item: item.score, reverse=True)[:limit]

    def _hits(self, source: ServerSource, query: Query, limit: int, exact: bool) -> dict[tuple[str, int], Hit]:
        """Return messages by words and by meaning, each with the better of the two scores."""
        hits: dict[tuple[str, int], Hit] = {}
        for session, message, score in source.store.find(" ".join(word.text for word in query.wanted), limit):
            hits[session.id, message.seq] = (score, session, message)
        self._worded = self._worded or bool(hits)
        text = query.said if hits else known_words(self._embedder(), query.said)
        for session, message, score in () if exact or not text else self._similar(source, text, limit):
            known = hits.get((session.id, message.seq))
            if score >= LEAST_SIMILARITY and (known is None or known[0] < score * MEANING):
                hits[session.id, message.seq] = (score * MEANING, session, message)
        return hits

    def _similar(self, source: ServerSource, text: str, limit: int) -> list[tuple[Session, Message, float]]:
        """Return messages that are near a text in meaning, with their similarity."""
        store = source.store
        embedder = self._embedder()
        recent = store.listed(limit=RECENT_SESSIONS)
        if store.has_vectors():
            claims = store.claims()
            for session in () if store.shared else recent:
                count = session.message_count
                claim = (
                    claims.claim(f"embed {embedder.name}", session.id, CLAIM_SECONDS, version=count) if count else None
                )
                if claim is not None:
                    backfill(store, session.id, embedder)
                    claims.finish(claim, version=count)
            vector = embedder.embed([text])[0].tolist()
            hits = store.find_similar(vector, embedder.name, limit) if any(vector) else []
            return [(hit.session, hit.message, hit.score) for hit in hits]
        pairs = [(session, message) for session in recent for message in store.tail(session.id, NEWEST_MESSAGES)]
        pairs = [pair for pair in pairs if is_embedded(pair[1])]
        if not pairs:
            return []
        vectors = embedder.embed([text, *(message.text for _, message in pairs)])
        scores = (vectors[1:] @ vectors[0]).tolist()
        return [(session, message, score) for (session, message), score in zip(pairs, scores, strict=True)]

    def _match_of(self, source: ServerSource, query: Query, score: float, session: Session, message: Message) -> Match:
        """Return a message as it is shown, with its neighbours."""
        near = {each.seq: each for each in islice(source.store.read(session.id, max(0, message.seq - 1)), 3)}
        terms = {term for word in query.wanted for term, _, _ in self._engine.tokens(word.text)}
        return match_of(message, self._snippet(message, terms), near, score)


def known_words(embedder: Embedder, text: str) -> str:
    """Return the words of a text that the embedder knows."""
    from cortext.index.search.embed import StaticModel

    return embedder.known(text) if isinstance(embedder, StaticModel) else text


def _matches_filters(query: Query, row: Row) -> bool:
    """Whether the filters of a query allow a session on a server."""
    wanted = session_filters(query)
    wanted.pop("project", "")
    order = order_filter(wanted.pop("tag", ""), wanted.pop("is", ""))
    return is_in_order(row, **order) and all(getattr(row, name) == value for name, value in wanted.items())
