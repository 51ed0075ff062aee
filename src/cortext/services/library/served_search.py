"""Search in the sessions on servers: each searches what it has.

The server searches by words and, if it has pgvector, by meaning: recent sessions without vectors get them first, once
for all users. Without pgvector, the newest messages of recent sessions are compared here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from cortext.index.search.embed import StaticModel
from cortext.index.search.engine import Engine
from cortext.index.search.query import ParsedQuery
from cortext.index.search.words import clean, searchable
from cortext.index.sessions import Row
from cortext.model.message import Message
from cortext.model.query import FILTERS, Query, comparable_time
from cortext.model.session import COMPLETED, PAUSED, Session
from cortext.services.library.backfill import Embedder, backfill, is_embedded
from cortext.services.library.hits import Check, match_of, session_filters, snippet
from cortext.services.library.listing import Listing
from cortext.services.library.served_sessions import ServedSessions, ServedStore
from cortext.services.library.sources import Answer, Match, SessionHit, meets, selection
from cortext.store.server_capabilities import COMPARED, COMPARED_IN_MESSAGES

Hit = tuple[float, Session, Message]  # with its score

RECENT_SESSIONS = 20  # searched by meaning
NEWEST_MESSAGES = 60  # of each of them
MEANING = 0.7  # the weight of a match by meaning, where a match by words has 1
LEAST_SIMILARITY = 0.35
MOST_HITS = 5_000  # messages that the server is asked for, if most of them are rejected here
CLAIM_SECONDS = 60.0  # the longest time that one process may take for the vectors of a session


class ServedSearch:
    """Search in the sessions of a listing that are on servers."""

    def __init__(self, listing: Listing, engine: Engine, embedder: Callable[[], Embedder]) -> None:
        self._listing, self._engine, self._embedder = listing, engine, embedder

    def reached(self, listing: Listing) -> ServedSearch:
        """See SearchSource."""
        return ServedSearch(listing, self._engine, self._embedder)

    def messages(self, parsed: ParsedQuery, query: Query, limit: int, per_session: int) -> Answer:
        """See SearchSource."""
        answer = self.sessions(parsed, query, limit, per_session or limit)
        hits = [SessionHit(item.session, [match], match.score) for item in answer.hits for match in item.matches]
        return answer._replace(hits=hits)

    def rows(self, parsed: ParsedQuery, query: Query, limit: int) -> list[Row]:
        """See SearchSource."""
        return [hit.session for hit in self.sessions(parsed, query, limit, 1).hits]

    def sessions(self, parsed: ParsedQuery, query: Query, limit: int, per_session: int) -> Answer:
        """See SearchSource."""
        check = Check(parsed, self._engine.stems, ())
        hits: list[SessionHit] = []
        has_words = False
        filters = {name: value for name, value in session_filters(parsed).items() if name != "after"}
        chosen = selection(Query(filters=filters), self._listing.projects_of)
        conditions = [*chosen.where, *([("status", chosen.status)] if chosen.status else [])]
        roots = self._listing.roots(filters["workspace"]) if filters.get("workspace") else self._listing.stores

        def allows(row: Row, message: Message) -> bool:
            if query.among is not None and not query.among(row.root, row.id):
                return False
            if row.id in query.leave_out or not all(meets(row, *each) for each in conditions):
                return False
            if check.is_copy(message) or check.repeats(message, row):
                return False
            return check.allows(message, row)

        for source in self._listing.served if parsed.said else ():
            if source.root not in roots:
                continue
            question = partial(self._groups, source, parsed, limit, max(1, per_session), query.exact, allows)
            best, is_worded = self._listing.ask(source, question) or ([], False)
            has_words = has_words or is_worded
            places = [(hit[1].id, hit[2].seq) for group in best for hit in group]
            near = self._listing.ask(source, partial(source.store.around, places)) or {}
            for group in best:
                matches = [self._match_of(near, parsed, *hit) for hit in group]
                hits.append(SessionHit(source.shown(group[0][1]), matches, round(group[0][0], 4)))
        hits.sort(key=lambda item: item.score, reverse=True)
        return Answer(hits[:limit], is_only_near=not has_words)

    def _groups(
        self,
        source: ServedSessions,
        parsed: ParsedQuery,
        limit: int,
        per_session: int,
        exact: bool,
        allows: Callable[[Row, Message], bool],
    ) -> tuple[list[list[Hit]], bool]:
        """Return the best sessions, each as its best messages, and whether any message has the words.

        What the server cannot filter by (tags, projects, required words) is checked here. If too few are left, more
        are asked for.
        """
        groups: dict[str, list[Hit]] = {}
        seen: set[tuple[str, int]] = set()
        number = limit * per_session
        has_words = False
        while True:
            hits, is_worded, is_all = self._hits(source, parsed, number, exact)
            has_words = has_words or is_worded
            for key in sorted(hits.keys() - seen, key=lambda key: hits[key][0], reverse=True):
                if allows(source.shown(hits[key][1]), hits[key][2]):
                    groups.setdefault(key[0], []).append(hits[key])
            seen |= hits.keys()
            if is_all or len(groups) >= limit or number >= MOST_HITS:
                break
            number = min(4 * number, MOST_HITS)
        best = [sorted(group, key=_rank, reverse=True)[:per_session] for group in groups.values()]
        return sorted(best, key=lambda group: _rank(group[0]), reverse=True)[:limit], has_words

    def _hits(
        self, source: ServedSessions, parsed: ParsedQuery, limit: int, exact: bool
    ) -> tuple[dict[tuple[str, int], Hit], bool, bool]:
        """Return messages by words and by meaning, each with the better of the two scores.

        Then whether any has the words, and whether these are all.
        """
        hits: dict[tuple[str, int], Hit] = {}
        where = _where(parsed)
        worded = source.store.find(" ".join(word.text for word in parsed.wanted), limit, where)
        for session, message, score in worded:
            hits[session.id, message.seq] = (score, session, message)
        is_worded = bool(hits)
        text = parsed.said if hits else known_words(self._embedder(), parsed.said)
        similar = [] if exact or not text else self._similar(source, text, limit, where)
        for session, message, score in similar:
            known = hits.get((session.id, message.seq))
            if score >= LEAST_SIMILARITY and (known is None or known[0] < score * MEANING):
                hits[session.id, message.seq] = (score * MEANING, session, message)
        return hits, is_worded, len(worded) < limit and (len(similar) < limit or similar[-1][2] < LEAST_SIMILARITY)

    def _similar(
        self, source: ServedSessions, text: str, limit: int, where: Sequence[tuple[str, str]]
    ) -> list[tuple[Session, Message, float]]:
        """Return messages that are near a text in meaning, with their similarity, the nearest first."""
        store = source.store
        embedder = self._embedder()
        recent = store.listed(limit=RECENT_SESSIONS)
        if store.has_vectors():
            self._embed_recent(store, [] if store.shared else recent)
            vector = embedder.embed([text])[0].tolist()
            hits = store.find_similar(vector, embedder.name, limit, where) if any(vector) else []
            return [(hit.session, hit.message, hit.score) for hit in hits]
        pairs = [(session, message) for session in recent for message in store.tail(session.id, NEWEST_MESSAGES)]
        pairs = [pair for pair in pairs if is_embedded(pair[1])]
        if not pairs:
            return []
        vectors = embedder.embed([text, *(message.text for _, message in pairs)])
        scores = (vectors[1:] @ vectors[0]).tolist()
        scored = [(session, message, score) for (session, message), score in zip(pairs, scores, strict=True)]
        return sorted(scored, key=lambda item: item[2], reverse=True)

    def _embed_recent(self, store: ServedStore, recent: Sequence[Session]) -> None:
        """Compute the vectors that sessions of our own lack; one statement finds out whether any does."""
        embedder = self._embedder()
        topic = f"embed {embedder.name}"
        claims = store.claims()
        finished = claims.finished(topic, [session.id for session in recent])
        for session in recent:
            count = session.line_count
            due = count > finished.get(session.id, 0)
            claim = claims.claim(topic, session.id, CLAIM_SECONDS, version=count) if due else None
            if claim is not None:
                backfill(store, session.id, embedder)
                claims.finish(claim, version=count)

    def _match_of(
        self,
        near: Mapping[tuple[str, int], Message],
        parsed: ParsedQuery,
        score: float,
        session: Session,
        message: Message,
    ) -> Match:
        """Return a message as it is shown, with its neighbours."""
        numbers = range(message.seq - 1, message.seq + 2)
        beside = {number: near[session.id, number] for number in numbers if (session.id, number) in near}
        terms = {term for word in parsed.wanted for term, _, _ in self._engine.tokens(word.text)}
        shown = snippet(clean(searchable(message)), terms, self._engine.tokens)
        match = match_of(message, shown, {**beside, message.seq: message}, score)
        return match._replace(why=("words",) if match.highlights else ("meaning",))


def _rank(hit: Hit) -> tuple[float, str]:
    return hit[0], hit[1].last_active


def _where(parsed: ParsedQuery) -> list[tuple[str, str]]:
    """Return the filters of a query that the server itself can apply."""
    where: list[tuple[str, str]] = []
    for name in (*COMPARED, *COMPARED_IN_MESSAGES):
        value = parsed.filters.get(name, "")
        if name in FILTERS and FILTERS[name].is_time:
            value = comparable_time(name, value)
        if name == "status" and value not in (PAUSED, COMPLETED):  # an interrupted session depends on its lease
            continue
        if value and "," not in value:
            where.append((name, value))
    return list(dict.fromkeys(where))


def known_words(embedder: Embedder, text: str) -> str:
    """Return the words of a text that the embedder knows."""
    return embedder.known(text) if isinstance(embedder, StaticModel) else text
