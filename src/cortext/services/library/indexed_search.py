"""Search in the sessions in files, by the search index: candidates, ranked, read and checked."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from copy import copy
from typing import NamedTuple

from cortext.index.search.engine import Engine
from cortext.index.search.generation import BROKEN
from cortext.index.search.query import ParsedQuery, parse
from cortext.index.search.reading import Picking
from cortext.index.search.retrieve import Lookup, Results
from cortext.index.search.words import clean, searchable
from cortext.index.sessions import Row
from cortext.model.query import Query
from cortext.services.library.hits import Check, LeftOut, QueryReading, match_of, session_filters, snippet
from cortext.services.library.listing import Listing
from cortext.services.library.sources import Answer, Match, SessionHit

Ranked = tuple[float, "Row", int, tuple[str, ...]]  # score, session, number of the message in it, why it was found

BESIDE = ("neighbour",)  # why a message is shown that does not match itself
FURTHER_MATCH = 0.1  # share of its score that each further match adds to its session's score
FURTHER = 3  # matches of a session that count
LEAST_FURTHER = 0.6  # of the best message's score: the least for a further match without any of the words
LEAST_BY_MEANING = 0.6  # of the best score: the least for a result if no message has the words
CANDIDATES = 300
RAREST_WORDS = 24  # words of a session by which similar ones are found
AT_A_TIME = 60  # messages whose sessions are looked up together
READ_PER_SESSION = 6  # messages that are ranked, for each session wanted, before the sessions are sorted


class _Ranking(NamedTuple):
    """What a query found, before it is shown."""

    best: Iterator[Ranked]  # the best first
    results: Results
    reading: QueryReading


class IndexedSearch:
    """Search in the sessions of a listing that are in files. If the index is damaged, `rebuild` makes it again."""

    def __init__(self, listing: Listing, engine: Engine, rebuild: Callable[[], None]) -> None:
        self._listing, self._engine, self._rebuild = listing, engine, rebuild
        self._left_out = LeftOut(listing)
        self._allowed: tuple[tuple[object, ...], list[int]] = ((), [])  # the last filters and the keys they allowed
        self._picking = Picking()

    def reached(self, listing: Listing, rebuild: Callable[[], None] | None = None) -> IndexedSearch:
        """See SearchSource."""
        other = copy(self)
        other._listing, other._rebuild = listing, rebuild or self._rebuild
        return other

    def sessions(self, parsed: ParsedQuery, query: Query, limit: int, per_session: int) -> Answer:
        """See SearchSource."""
        ranking = self._ranked(parsed, query, limit * per_session)
        hits = self._grouped(ranking, limit, per_session, self._check(parsed, query.leave_out))
        return _answer(ranking.results, hits)

    def messages(self, parsed: ParsedQuery, query: Query, limit: int, per_session: int) -> Answer:
        """See SearchSource."""
        ranking = self._ranked(parsed, query, limit)
        check = self._check(parsed, query.leave_out)
        count: dict[tuple[str, str], int] = {}
        hits: list[SessionHit] = []
        wordless: list[SessionHit] = []  # in a session that was found by its title, for example an image
        for item in ranking.best:
            row = item[1]
            if per_session and count.get((row.root, row.id), 0) >= per_session:
                continue
            matches = self._matches([item], 1, ranking, check)
            if matches and matches[0].snippet:
                count[row.root, row.id] = count.get((row.root, row.id), 0) + 1
                hits.append(SessionHit(row, matches, matches[0].score))
            elif matches:
                wordless.append(SessionHit(row, matches, matches[0].score))
            if len(hits) == limit:
                break
        return _answer(ranking.results, hits or wordless[:1])

    def rows(self, parsed: ParsedQuery, query: Query, limit: int) -> Iterator[Row]:
        """See SearchSource. No message is read."""
        ranking = self._ranked(parsed, query, 10 * limit)
        return (row for _, row, *_ in ranking.best)

    def similar(self, row: Row, texts: Sequence[str], limit: int) -> list[SessionHit]:
        """Return sessions about the same topic as this one, by the rarest words of its texts and by its meaning."""
        parsed = parse(" ".join(self._engine.rarest("\n".join(texts), RAREST_WORDS)))
        keys = self._engine.keys_of([(row.root, row.id)])
        query = Query(leave_out=[row.id])
        ranking = self._ranked(parsed, query, limit * FURTHER, like=keys[0] if keys else 0)
        return self._grouped(ranking, limit, 1, self._check(parsed, query.leave_out))

    def _ranked(self, parsed: ParsedQuery, query: Query, count: int, like: int = 0) -> _Ranking:
        """Rank messages; a damaged index is rebuilt first."""
        try:
            return self._ranked_once(parsed, query, count, like)
        except BROKEN:
            self._rebuild()
            return self._ranked_once(parsed, query, count, like)

    def _ranked_once(self, parsed: ParsedQuery, query: Query, count: int, like: int) -> _Ranking:
        keys, unwanted = self._keys(parsed, query.leave_out)
        if query.among is not None:
            pairs = [pair for pair in self._listing.pairs(Query()) if query.among(*pair)]
            known = self._engine.keys_of(pairs)
            allowed = set(known if keys is None else keys)
            keys = [key for key in known if key in allowed]
        reading = QueryReading(self._listing, self._engine.sessions, self._picking, query.leave_out)
        results = self._engine.find(
            Lookup(
                parsed,
                keys=keys,
                leave_out=unwanted,
                limit=max(CANDIDATES, count * 5),
                exact=query.exact,
                like=like,
                read=reading.messages,
                decides=_deciding(parsed),
            )
        )
        return _Ranking(_in_order(results, reading), results, reading)

    def _keys(self, query: ParsedQuery, leave_out: Collection[str]) -> tuple[Collection[int] | None, list[int]]:
        """Return the keys of the sessions that the filters allow (None: all), and of those to leave out."""
        wanted = session_filters(query)
        sources = self._listing.files
        unwanted = self._engine.keys_of([(root, name) for root in sources for name in leave_out])
        if not wanted and not self._engine.strangers():
            return None, unwanted
        # While a query is typed, the same filters come again and again: the keys are kept until something changes.
        request = (*self._listing.index.counter(), self._engine.version(), *wanted.items())
        if request != self._allowed[0] or "status" in wanted:  # whether a session is in use is not in the index
            self._allowed = request, self._engine.keys_of(self.pairs(query))
        return self._allowed[1], unwanted

    def pairs(self, query: ParsedQuery) -> list[tuple[str, str]]:
        """Return (store, id) of the sessions that the filters allow."""
        return self._listing.pairs(Query(filters=session_filters(query)))

    def _check(self, query: ParsedQuery, leave_out: Collection[str]) -> Check:
        """Return the check for messages; it also rejects copies of messages of the sessions that are left out."""
        return Check(query, self._engine.stems, self._left_out.messages(leave_out))

    def _grouped(self, ranking: _Ranking, limit: int, per_session: int, check: Check) -> list[SessionHit]:
        groups: dict[tuple[str, str], list[Ranked]] = {}
        for count, item in enumerate(ranking.best, 1):
            groups.setdefault((item[1].root, item[1].id), []).append(item)
            # Twice as many as wanted, because some are copies or rejected by the filters.
            enough = max(AT_A_TIME, READ_PER_SESSION * limit, 2 * limit * per_session)
            if count >= enough and len(groups) >= 2 * limit:
                break  # the next message would look up another batch of sessions
        found: list[SessionHit] = []
        for group in sorted(groups.values(), key=_session_score, reverse=True):
            matches = self._matches(group, per_session, ranking, check)
            if matches:
                found.append(SessionHit(group[0][1], matches, round(_session_score(group), 4)))
            if len(found) == limit:
                break
        return found

    def _matches(self, group: Iterable[Ranked], most: int, ranking: _Ranking, check: Check) -> list[Match]:
        """Return the best messages of one session.

        A message that was only found because it stands next to another is shown with that one, not on its own.
        """
        matches: list[Match] = []
        wordless: list[Match] = []  # a message with only thinking, for example; shown if there is nothing else
        copies: list[int] = []
        for score, row, seq, why in group:
            if len(matches) == most:
                break
            if any(abs(other - seq) <= 1 for other in copies):
                continue
            if why == BESIDE and any(abs(other.seq - seq) <= 1 for other in matches):
                continue
            message = ranking.reading.message(row, seq)
            if message is None:
                continue
            if check.is_copy(message):  # in a fork its neighbours are copies too
                copies.append(seq)
                continue
            if check.repeats(message, row):
                continue
            if not check.allows(message, row):
                continue
            shown = snippet(clean(searchable(message)), ranking.results.terms, self._engine.tokens)
            if matches and not shown[1] and score < LEAST_FURTHER * matches[0].score:
                continue  # it was only found because it is near the best one
            match = match_of(message, shown, ranking.reading.around(row, seq), score, why)
            (matches if match.snippet else wordless).append(match)
        return matches or wordless[:1]


def _in_order(results: Results, reading: QueryReading) -> Iterator[Ranked]:
    """Yield the messages with their sessions, which are looked up lazily, a few at a time.

    The order of messages with equal scores does not depend on how the index was built.
    """
    best = sorted(((round(score, 6), key, seq) for (key, seq), score in results.scores.items()), reverse=True)
    start = 0
    while start < len(best):
        end = min(start + AT_A_TIME, len(best))
        while end < len(best) and best[end][0] == best[end - 1][0]:
            end += 1  # messages with the same score are sorted together
        batch = best[start:end]
        rows = reading.rows({key for _, key, _ in batch})
        ranked = [
            (score, known[0], seq, results.why((key, seq)))
            for score, key, seq in batch
            if (known := rows[key]) is not None and seq < known[1]
        ]
        ranked.sort(key=lambda item: (item[0], item[1].last_active, item[1].id, -item[2]), reverse=True)
        yield from ranked
        start = end


def _deciding(query: ParsedQuery) -> Callable[[str], float]:
    """Return what says how much of the query's subject a text decides; nothing does if it asks for no decision."""
    if not query.intent.decision:
        return lambda text: 0.0
    from cortext.services.text.decisions import decided_share, topic_words

    subject = [word.text for word in query.wanted if word.text.lower() not in query.person]
    topic = topic_words(" ".join(subject))
    return lambda text: decided_share(text, topic)


def _session_score(group: list[Ranked]) -> float:
    # Rounded: sums of the same numbers in another order may differ in their last digits.
    return round(group[0][0] + FURTHER_MATCH * sum(item[0] for item in group[1:FURTHER]), 6)


def _answer(results: Results, hits: Sequence[SessionHit]) -> Answer:
    """Return the answer of the local index. If no message has the words, only hits about as near as the nearest."""
    least = 0.0 if results.has_words else LEAST_BY_MEANING * max((hit.score for hit in hits), default=0.0)
    return Answer(
        [hit for hit in hits if hit.score >= least],
        is_only_near=not results.has_words,
        has_few=results.has_few,
        absent=results.absent,
        meaningless=results.meaningless,
    )
