"""Search where some sessions are on a server: the local index and the server each find what they have.

Words are found by the server. Meaning too, where it has pgvector: recent sessions that lack vectors get them first,
each made once whoever searches. Without it, meaning is looked for in the newest messages of recent sessions, here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from itertools import islice
from typing import Any

from cortext.index.search.models import Models
from cortext.index.search.query import Query, parse
from cortext.index.search.words import clean, searchable
from cortext.index.sessions import Row
from cortext.model.message import Message
from cortext.model.session import Session
from cortext.services.assistant.backfill import Embedder, backfill, is_embedded
from cortext.services.library.listing import Listing
from cortext.services.library.search import PER_SESSION, Found, Match, Search
from cortext.services.library.server_rows import ServerSource
from cortext.services.library.snippets import shortened, snippet

Hits = dict[tuple[str, int], tuple[float, Session, Message]]

RECENT = 20  # sessions that are looked at for their meaning
NEWEST = 60  # messages of each
MEANING = 0.7  # what a meaning that is quite the same is worth beside the very words
ALIKE = 0.35  # less is no likeness
CLAIMED = 60.0  # seconds that one process may take for the vectors of a session


class ServedSearch(Search):
    """Search in the sessions of a listing, some of them on a server."""

    def __init__(self, listing: Listing, folder: str, models: Models, embedder: Callable[[], Embedder]) -> None:
        super().__init__(listing, folder, models)
        self._embedder = embedder
        self._worded = False  # whether a server found the words of the last query

    @property
    def by_meaning(self) -> bool:
        """See Search.by_meaning; a message of the server counts too."""
        return super().by_meaning and not self._worded

    def search(
        self,
        text: str,
        *,
        filters: Mapping[str, str] | None = None,
        limit: int = 20,
        per_session: int = PER_SESSION,
        exact: bool = False,
        leave_out: Collection[str] = (),
        fresh: bool = True,
    ) -> list[Found]:
        """See Search.search."""
        self._worded = False
        here = super().search(
            text, filters=filters, limit=limit, per_session=per_session, exact=exact, leave_out=leave_out, fresh=fresh
        )
        return _merged(here, self._served(text, filters, limit, per_session, exact, leave_out), limit)

    def messages(
        self,
        text: str,
        *,
        filters: Mapping[str, str] | None = None,
        limit: int = 20,
        per_session: int = 0,
        exact: bool = False,
        leave_out: Collection[str] = (),
        fresh: bool = True,
    ) -> list[Found]:
        """See Search.messages."""
        self._worded = False
        here = super().messages(
            text, filters=filters, limit=limit, per_session=per_session, exact=exact, leave_out=leave_out, fresh=fresh
        )
        served = self._served(text, filters, limit, per_session or limit, exact, leave_out)
        single = [Found(found.session, [match], match.score) for found in served for match in found.matches]
        return _merged(here, sorted(single, key=lambda found: found.score, reverse=True), limit)

    def _served(
        self,
        text: str,
        filters: Mapping[str, str] | None,
        limit: int,
        per_session: int,
        exact: bool,
        leave_out: Collection[str],
    ) -> list[Found]:
        query = parse(text, filters)
        check = self._check(query, ())
        found: list[Found] = []
        for source in self._listing.servers.values() if query.said else ():
            place = query.filters.get("workspace", "").casefold()
            if place and place != self._listing.labels.get(source.root, "").casefold():
                continue
            hits = self._hits(source, query, limit * max(1, per_session), exact)
            groups: dict[str, list[tuple[float, Session, Message]]] = {}
            for hit in sorted(hits.values(), key=lambda hit: (hit[0], hit[1].last_active), reverse=True):
                row = source.row(hit[1])
                if row.id in leave_out or not _wanted(query, row) or check.is_copy(hit[2]):
                    continue
                if check.allows(hit[2], row):
                    groups.setdefault(row.id, []).append(hit)
            for group in islice(groups.values(), limit):
                matches = [self._match(source, query, *hit) for hit in group[:per_session]]
                found.append(Found(source.row(group[0][1]), matches, round(group[0][0], 4)))
        return sorted(found, key=lambda item: item.score, reverse=True)[:limit]

    def _hits(self, source: ServerSource, query: Query, limit: int, exact: bool) -> Hits:
        """Messages by their words and by their meaning, each with the better of the two scores."""
        hits: Hits = {}
        for session, message, score in source.store.find(" ".join(word.text for word in query.wanted), limit):
            hits[session.id, message.seq] = (score, session, message)
        self._worded = self._worded or bool(hits)
        said = query.said if hits else known_words(self._embedder(), query.said)
        for session, message, score in () if exact or not said else self._alike(source, said, limit):
            known = hits.get((session.id, message.seq))
            if score >= ALIKE and (known is None or known[0] < score * MEANING):
                hits[session.id, message.seq] = (score * MEANING, session, message)
        return hits

    def _alike(self, source: ServerSource, said: str, limit: int) -> list[tuple[Session, Message, float]]:
        store: Any = source.store
        embedder = self._embedder()
        recent = store.listed(limit=RECENT)
        if store.has_vectors():
            claims = store.claims()
            for session in recent:
                count = session.message_count
                claim = claims.claim(f"embed {embedder.name}", session.id, CLAIMED, version=count) if count else None
                if claim is not None:
                    backfill(store, session.id, embedder)
                    claims.finish(claim, version=count)
            vector = embedder.embed([said])[0].tolist()
            return [tuple(hit) for hit in store.find_similar(vector, embedder.name, limit)] if any(vector) else []
        pairs = [(session, message) for session in recent for message in store.tail(session.id, NEWEST)]
        pairs = [pair for pair in pairs if is_embedded(pair[1])]
        if not pairs:
            return []
        vectors = embedder.embed([said, *(message.text for _, message in pairs)])
        scores = (vectors[1:] @ vectors[0]).tolist()
        return [(session, message, score) for (session, message), score in zip(pairs, scores, strict=True)]

    def _match(self, source: ServerSource, query: Query, score: float, session: Session, message: Message) -> Match:
        """A message as it is shown, between its neighbours."""
        near = {each.seq: each for each in islice(source.store.read(session.id, max(0, message.seq - 1)), 3)}
        lit = {term for word in query.wanted for term, _, _ in self._engine.tokens(word.text)}
        shown, spans = snippet(clean(searchable(message)), lit, self._engine.tokens)
        before, after = (_said(near.get(message.seq + step)) for step in (-1, 1))
        return Match(
            message.id, message.seq, message.role, message.timestamp, shown, spans, round(score, 4), before, after
        )


def known_words(embedder: Embedder, said: str) -> str:
    """The words that the embedder knows the meaning of."""
    from cortext.index.search.embed import StaticModel

    return embedder.known(said) if isinstance(embedder, StaticModel) else said


def _said(message: Message | None) -> str:
    return shortened(clean(searchable(message))) if message is not None else ""


def _wanted(query: Query, row: Row) -> bool:
    """Whether a session of the server is one that the filters allow."""
    wanted = {name: query.filters[name] for name in ("tool", "type", "status", "agent") if name in query.filters}
    return all(getattr(row, name) == value for name, value in wanted.items())


def _merged(here: list[Found], served: list[Found], limit: int) -> list[Found]:
    """Both lists as one. The best of each counts as much: their scores are not made of the same things."""
    top = max((found.score for found in here), default=0.0) or 1.0
    best = max((found.score for found in served), default=0.0) or 1.0
    scaled = [found._replace(score=round(found.score / best * top, 4)) for found in served]
    return sorted([*here, *scaled], key=lambda found: found.score, reverse=True)[:limit]
