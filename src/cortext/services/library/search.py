"""Search over every session of every store, by words and by meaning: the best messages, each with its neighbours."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from copy import copy
from threading import RLock
from typing import NamedTuple

from cortext.errors import StoreUnreachable
from cortext.index.search.engine import Engine, Updated
from cortext.index.search.generation import BROKEN, Status
from cortext.index.search.models import Models
from cortext.index.search.query import ParsedQuery, parse
from cortext.index.search.reading import Picking
from cortext.index.search.retrieve import Lookup, Results
from cortext.index.search.words import clean, searchable
from cortext.index.sessions import Row
from cortext.model.message import Message
from cortext.model.query import Among, Query, number, of_sessions
from cortext.safety import terminal
from cortext.services.library.hits import Check, LeftOut, QueryReading, shortened, snippet
from cortext.services.library.json_views import Json, session_json
from cortext.services.library.listing import Listing, incomplete_line, placed

Ranked = tuple[float, "Row", int, tuple[str, ...]]  # score, session, number of the message in it, why it was found

Progress = Callable[[str, int, int], None]


class Match(NamedTuple):
    """A message that was found; `before` and `after` are the beginnings of its neighbours.

    `highlights` are the (start, end) offsets of the query's words in the snippet. `why` says what it was found by:
    words, meaning, title, date; or `neighbour`, if it only stands next to a message that was found.
    """

    id: str
    seq: int
    role: str
    timestamp: str
    snippet: str
    highlights: list[tuple[int, int]]
    score: float
    before: str
    after: str
    why: tuple[str, ...] = ()


class SessionHit(NamedTuple):
    """A session with the messages found in it, the best first."""

    session: Row
    matches: list[Match]
    score: float


class Answer(NamedTuple):
    """What a search found, the best first, and what to know about it."""

    hits: Sequence[SessionHit] = ()
    is_only_near: bool = False  # no message has the words, or too few of them: the hits are only near in meaning
    has_few: bool = False  # if so: some of the words were found
    missing: Sequence[str] = ()  # words that no message has, not even as a part of a word or misspelled
    unclear: str = ""  # what sounds like a time, but is none that is known
    filters: Mapping[str, str] = {}  # those that were applied, also if they were in the text
    meaningless: str = ""  # why only words were compared, not meanings
    is_current: bool = True  # whether everything was indexed when the index was last brought up to date
    damaged: int = 0  # sessions among those that were asked for whose messages may be missing
    away: Mapping[str, StoreUnreachable] = {}  # the servers that did not answer, by address

    @property
    def incomplete(self) -> str:
        """Why something may be missing, in a sentence; empty if nothing is."""
        reasons = [error.message for error in self.away.values()]
        return incomplete_line(reasons, is_current=self.is_current, damaged=self.damaged)


__all__ = ["Answer", "Match", "Search", "SessionHit", "Updated", "hit_json"]

BESIDE = ("neighbour",)  # why a message is shown that does not match itself
FURTHER_MATCH = 0.1  # share of its score that each further match adds to its session's score
LIMIT, PER_SESSION = 20, 3  # results, and messages of each, unless the query says otherwise
LEAST_FURTHER = 0.6  # of the best message's score: the least for a further match without any of the words
LEAST_BY_MEANING = 0.6  # of the best score: the least for a result if no message has the words
CANDIDATES = 300
AT_A_TIME = 60  # messages whose sessions are looked up together
READ_PER_SESSION = 6  # messages that are ranked, for each session wanted, before the sessions are sorted
RAREST_WORDS = 24  # words of a session by which similar ones are found
MOST_NAMED = 5  # missing words that are named
SAMPLE = 20_000  # characters of a session from which those words are taken


def lacking(quoted: str, answer: Answer) -> str:
    """Return what is said of a query whose hits are only near in meaning."""
    return f"No message contains {'most of these words' if answer.has_few else quoted}"


def note_of(answer: Answer, text: str) -> str:
    """Return the line shown above the hits: what of the query no message contains, or is not clear."""
    unclear = f"{_quoted(answer.unclear)} was not used as a time: no git tag here has that name. "
    note = unclear if answer.unclear else ""
    if answer.is_only_near:
        return f"{note}{lacking(_quoted(text), answer)}. Closest in meaning:"
    words = [_quoted(word) for word in answer.missing[:MOST_NAMED]]
    return (note + (f"No message contains {' or '.join(words)}:" if words else "")).strip()


def nothing_of(answer: Answer) -> str:
    """Return what is said if nothing was found: the filters may be the reason."""
    filters = [f"{name}:{terminal.line(value)}" for name, value in answer.filters.items()]
    return f"Nothing was found with {' '.join(filters)}." if filters else "Nothing was found."


def _quoted(text: str) -> str:
    text = terminal.line(" ".join(text.split()))
    return f'"{text if len(text) <= 60 else text[:59] + "…"}"'


class _Ranking(NamedTuple):
    """What a query found, before it is shown."""

    best: Iterator[Ranked]  # the best first
    results: Results
    reading: QueryReading


class Search:
    """Search in the sessions of a listing. Several threads may use it: they take turns."""

    def __init__(
        self, listing: Listing, folder: str, models: Models, released: Callable[[str], str] = lambda version: ""
    ) -> None:
        self._listing = listing
        self._released = released  # when a version of the project was released
        self._engine = Engine(folder, listing.sources, models)
        self._left_out = LeftOut(listing)
        self._is_current = True  # whether everything was indexed when the last refresh ended
        self._allowed: tuple[tuple[object, ...], list[int]] = ((), [])  # the last filters and the keys they allowed
        self._picking = Picking()
        self._turn = RLock()

    def reachable(self) -> Search:
        """Return the same search without the servers that do not answer (see `Listing.reachable`)."""
        other = copy(self)
        other._listing = self._listing.reachable()
        return other

    @property
    def listing(self) -> Listing:
        """The list of the sessions that are searched."""
        return self._listing

    def damaged(self, query: ParsedQuery | None = None, among: Among | None = None) -> int:
        """Return how many sessions, of those that a query allows, are damaged: messages may be missing there."""
        found = self._listing.index.pairs(list(self._listing.sources), [("damage", "")])
        if found and query is not None:
            found = list(set(found).intersection(self._pairs(query)))
        return len(found if among is None else [pair for pair in found if among(*pair)])

    # ── the index ────────────────────────────────────────────────────────────────────────────────────

    def refresh(
        self, progress: Progress | None = None, *, meaning: bool = True, patient: bool = False, quick: bool = False
    ) -> Updated:
        """Index what changed since the last time, unless another process is doing that now.

        Without `patient`, embedding a large amount of text is left for later. With `quick`, changes are noticed as by a
        quick refresh of the list.
        """
        said = (lambda done, total: progress("Reading sessions", done, total)) if progress else None
        with self._turn:
            is_due = self._listing.refresh(said, quick=quick)
            done = self._engine.update(self._listing.index, progress, meaning=meaning, patient=patient)
            self._is_current = done.is_current
            return done._replace(has_more=done.has_more or is_due)

    def rebuild(self, progress: Progress | None = None) -> None:
        """Build the index again; the old one answers until the new one is complete."""
        self._listing.refresh()
        self._engine.rebuild(self._listing.index, progress)

    def clear(self) -> None:
        """Delete the index; the next query builds it again."""
        self._engine.clear()

    def status(self) -> Status:
        """Return what the index holds, how large it is, and whether it is out of date."""
        self._listing.refresh()
        return self._engine.status(self._listing.index)

    # ── queries ──────────────────────────────────────────────────────────────────────────────────────

    def search(self, query: Query, *, fresh: bool = True) -> Answer:
        """Return the best sessions, each with its best messages."""
        return self._answer(query, self._sessions, fresh=fresh)

    def messages(self, query: Query, *, fresh: bool = True) -> Answer:
        """Return the best messages: a hit with one match for each of them."""
        return self._answer(query, self._messages, fresh=fresh)

    def _answer(self, query: Query, ask: Callable[[ParsedQuery, Query], Answer], *, fresh: bool) -> Answer:
        """Ask, and if nothing has the phrases of a question, ask without their quotes."""
        with self._turn:
            if fresh:
                self.refresh(meaning=not query.exact)
            parsed = parse(query.text, query.filters, lambda version: number(self._released(version)))
            answer = ask(parsed, query)
            unquoted = parsed.unquoted()
            if not answer.hits and not query.exact and unquoted is not None:
                answer = ask(unquoted, query)
                answer = answer._replace(is_only_near=answer.is_only_near or bool(answer.hits))
            return answer._replace(
                hits=_placed(answer.hits),
                unclear=parsed.unclear,
                filters=parsed.filters,
                is_current=self._is_current,
                damaged=self.damaged(parsed, query.among),
                away=dict(self._listing.away),
            )

    def _sessions(self, parsed: ParsedQuery, query: Query) -> Answer:
        limit, per_session = query.limit or LIMIT, query.per_session or PER_SESSION
        ranking = self._ranked(parsed, query, limit * per_session)
        hits = self._grouped(ranking, limit, per_session, self._check(parsed, query.leave_out))
        served = self._served(parsed, query, limit, per_session)
        return _merged(_local(ranking.results, hits), served, limit)

    def _messages(self, parsed: ParsedQuery, query: Query) -> Answer:
        limit, per_session = query.limit or LIMIT, query.per_session
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
        served = self._served(parsed, query, limit, per_session or limit)
        single = [SessionHit(item.session, [match], match.score) for item in served.hits for match in item.matches]
        return _merged(_local(ranking.results, hits or wordless[:1]), served._replace(hits=single), limit)

    def naming(self, text: str, *, limit: int) -> list[Row]:
        """Return the sessions with a message that contains these words exactly, the best first; reads no message."""
        parsed, query = parse(text), Query(text, exact=True)
        with self._turn:
            ranking = self._ranked(parsed, query, 10 * limit)
            found = {(row.root, row.id): row for _, row, *_ in ranking.best}
            for item in self._served(parsed, query, limit, 1).hits:
                found.setdefault((item.session.root, item.session.id), item.session)
        return list(found.values())[:limit]

    def _served(self, parsed: ParsedQuery, query: Query, limit: int, per_session: int) -> Answer:
        """Return the best sessions that are on a server. This class knows none: see `served_search`."""
        return Answer(is_only_near=True)

    def similar(self, row: Row, *, limit: int = 10) -> list[SessionHit]:
        """Return sessions about the same topic as this one, by its rarest words and by its meaning."""
        texts = [row.title, row.summary]
        room = SAMPLE
        for message in self._listing.messages(row):
            if message.role in ("user", "assistant"):
                texts.append(message.text[:room])
                room -= len(texts[-1])
            if room <= 0:
                break
        with self._turn:
            parsed = parse(" ".join(self._engine.rarest("\n".join(texts), RAREST_WORDS)))
            keys = self._engine.keys_of([(row.root, row.id)])
            query = Query(leave_out=[row.id])
            ranking = self._ranked(parsed, query, limit * PER_SESSION, like=keys[0] if keys else 0)
            return self._grouped(ranking, limit, 1, self._check(parsed, query.leave_out))

    def _ranked(self, parsed: ParsedQuery, query: Query, count: int, like: int = 0) -> _Ranking:
        """Rank messages; a damaged index is rebuilt first."""
        try:
            return self._ranked_once(parsed, query, count, like)
        except BROKEN:
            self._engine.discard()
            self.refresh(patient=True)
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
        sources = self._listing.sources
        unwanted = self._engine.keys_of([(root, name) for root in sources for name in leave_out])
        if not wanted and not self._engine.strangers():
            return None, unwanted
        # While a query is typed, the same filters come again and again: the keys are kept until something changes.
        request = (*self._listing.index.counter(), self._engine.version(), *wanted.items())
        if request != self._allowed[0] or "status" in wanted:  # whether a session is in use is not in the index
            self._allowed = request, self._engine.keys_of(self._pairs(query))
        return self._allowed[1], unwanted

    def _pairs(self, query: ParsedQuery) -> list[tuple[str, str]]:
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
            if not check.allows(message, row):
                continue
            shown = self._snippet(message, ranking.results.terms)
            if matches and not shown[1] and score < LEAST_FURTHER * matches[0].score:
                continue  # it was only found because it is near the best one
            match = match_of(message, shown, ranking.reading.around(row, seq), score, why)
            (matches if match.snippet else wordless).append(match)
        return matches or wordless[:1]

    def _snippet(self, message: Message, terms: Collection[str]) -> tuple[str, list[tuple[int, int]]]:
        return snippet(clean(searchable(message)), terms, self._engine.tokens)


def match_of(
    message: Message,
    shown: tuple[str, list[tuple[int, int]]],
    near: Mapping[int, Message],
    score: float,
    why: tuple[str, ...] = (),
) -> Match:
    """Return a message as it is shown: with its snippet and highlights, and its neighbours, which are in `near`."""
    before, after = (_beginning(near.get(number)) for number in (message.seq - 1, message.seq + 1))
    named = (message.id, message.seq, message.role, message.timestamp)
    return Match(*named, *shown, round(score, 4), before, after, why)


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
    if not query.decision:
        return lambda text: 0.0
    from cortext.services.text.decisions import decided_share, topic_words

    subject = [word.text for word in query.wanted if word.text.lower() not in query.person]
    topic = topic_words(" ".join(subject))
    return lambda text: decided_share(text, topic)


def session_filters(query: ParsedQuery) -> dict[str, str]:
    """Return the filters of a query by which the list chooses sessions."""
    # A session that was last active before a time has no message after it; one that is active has older ones, too.
    return {name: query.filters[name] for name in of_sessions() if name in query.filters and name != "before"}


def _beginning(message: Message | None) -> str:
    return shortened(clean(searchable(message))) if message is not None else ""


def _session_score(group: list[Ranked]) -> float:
    # Rounded: sums of the same numbers in another order may differ in their last digits.
    return round(group[0][0] + FURTHER_MATCH * sum(item[0] for item in group[1:PER_SESSION]), 6)


def _local(results: Results, hits: Sequence[SessionHit]) -> Answer:
    """Return the answer of the local index. If no message has the words, only hits about as near as the nearest."""
    least = 0.0 if results.has_words else LEAST_BY_MEANING * _best_score(hits)
    return Answer(
        [hit for hit in hits if hit.score >= least],
        is_only_near=not results.has_words,
        has_few=results.has_few,
        missing=results.missing,
        meaningless=results.meaningless,
    )


def _merged(local: Answer, served: Answer, limit: int) -> Answer:
    """Return both answers as one. Scores are computed differently, so the best of each gets the same score.

    A server does not tell which words it has: if any was found there, none is known to be missing.
    """
    if not served.is_only_near:
        local = local._replace(is_only_near=False, missing=())
    if not served.hits:
        return local
    top, best = _best_score(local.hits) or 1.0, _best_score(served.hits) or 1.0
    scaled = [item._replace(score=round(item.score / best * top, 4)) for item in served.hits]
    scaled.sort(key=lambda item: item.score, reverse=True)
    return local._replace(hits=sorted([*local.hits, *scaled], key=lambda item: item.score, reverse=True)[:limit])


def _best_score(hits: Iterable[SessionHit]) -> float:
    return max((item.score for item in hits), default=0.0)


def _placed(found: Sequence[SessionHit]) -> list[SessionHit]:
    rows = placed(item.session for item in found)
    return [item._replace(session=row) for item, row in zip(found, rows, strict=True)]


def hit_json(row: Row, match: Match, *, nearest: bool = False) -> Json:
    """Return a message that was found, with its session; `nearest` as in `Answer.is_only_near`."""
    message = {name: getattr(match, name) for name in ("id", "seq", "role", "timestamp", "snippet")}
    return {
        "session": session_json(row),
        "message": message,
        "score": match.score,
        "why": list(match.why),
        "nearest": nearest,
    }
