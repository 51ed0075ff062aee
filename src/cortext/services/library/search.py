"""Search over every session of every store, by words and by meaning: the best messages, each with its neighbours."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from cortext.index.search.engine import Engine
from cortext.index.search.finding import Results
from cortext.index.search.generation import BROKEN, Status
from cortext.index.search.models import Models
from cortext.index.search.query import FILTERS, Query, number, parse, timestamp
from cortext.index.search.reading import Picking
from cortext.index.search.words import clean, searchable
from cortext.index.sessions import Row
from cortext.model.message import Message
from cortext.safety import terminal
from cortext.services.library.json_views import Json, session_json
from cortext.services.library.left_out import LeftOut
from cortext.services.library.listing import Listing, placed
from cortext.services.library.search_check import Check
from cortext.services.library.search_reading import QueryReading
from cortext.services.library.search_times import check_filters
from cortext.services.library.snippets import shortened, snippet

Ranked = tuple[float, "Row", int, tuple[str, ...]]  # score, session, number of the message in it, why it was found

Progress = Callable[[str, int, int], None]
Among = Callable[[str, str], bool]  # whether a session, by its store and id, may be found


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


class Found(NamedTuple):
    """A session with the messages found in it, the best first."""

    session: Row
    matches: list[Match]
    score: float


__all__ = ["FILTERS", "Found", "Match", "Search", "check_filters", "hit_json"]

SESSION_FILTERS = ("tool", "type", "status", "agent", "project", "tag", "is")
BESIDE = ("neighbour",)  # why a message is shown that does not match itself
FURTHER_MATCH = 0.1  # share of its score that each further match adds to its session's score
PER_SESSION = 3
LEAST_FURTHER = 0.6  # of the best message's score: the least for a further match without any of the words
LEAST_BY_MEANING = 0.6  # of the best score: the least for a result if no message has the words
CANDIDATES = 300
AT_A_TIME = 60  # messages whose sessions are looked up together
READ_PER_SESSION = 6  # messages that are ranked, for each session wanted, before the sessions are sorted
RAREST_WORDS = 24  # words of a session by which similar ones are found
MOST_NAMED = 5  # missing words that are named
SAMPLE = 20_000  # characters of a session from which those words are taken


def lacking(quoted: str, *, partly: bool) -> str:
    """Return what is said of a query if its results are only near in meaning (`Search.by_meaning`)."""
    return f"No message {'has much of' if partly else 'contains'} {quoted}"


def note_of(search: Search, query: str) -> str:
    """Return the line shown above the results of the last query: what of it no message contains, or is not clear."""
    unclear = f"{_quoted(search.unclear)} is not understood as a time: no tag here has that name. "
    note = unclear if search.unclear else ""
    if search.by_meaning:
        return f"{note}{lacking(_quoted(query), partly=search.partly)}; the nearest in meaning:"
    words = [_quoted(word) for word in search.missing[:MOST_NAMED]]
    return (note + (f"No message contains {' or '.join(words)}:" if words else "")).strip()


def nothing_of(search: Search) -> str:
    """Return what is said if the last query found nothing: its filters may be the reason."""
    filters = [f"{name}:{terminal.line(value)}" for name, value in search.filters.items()]
    return f"Nothing was found with {' '.join(filters)}." if filters else "Nothing was found."


def _quoted(text: str) -> str:
    text = terminal.line(" ".join(text.split()))
    return f'"{text if len(text) <= 60 else text[:59] + "…"}"'


class _Ranking(NamedTuple):
    """What a query found, before it is shown."""

    best: Iterator[Ranked]  # the best first
    terms: set[str]  # to highlight
    reading: QueryReading


class Search:
    """Search in the sessions of a listing."""

    def __init__(
        self, listing: Listing, folder: str, models: Models, released: Callable[[str], str] = lambda version: ""
    ) -> None:
        self._listing = listing
        self._released = released  # when a version of the project was released
        self.filters: dict[str, str] = {}  # of the last query
        self._query: Query | None = None  # the last one
        self.unclear = ""  # what sounds like a time in the last query, but is none that is known
        self._engine = Engine(folder, listing.sources, models)
        self._left_out = LeftOut(listing)
        self._without_quotes = False  # whether the last query found something only without its quotes
        self.more_to_do = False
        self.is_current = True  # whether everything was indexed when the last refresh ended
        self._allowed: tuple[tuple[object, ...], list[int]] = ((), [])  # the last filters and the keys they allowed
        self._picking = Picking()

    @property
    def trouble(self) -> str:
        """Why the last query was answered by keywords only; usually empty."""
        return self._engine.trouble

    @property
    def listing(self) -> Listing:
        """The list of the sessions that are searched."""
        return self._listing

    @property
    def by_meaning(self) -> bool:
        """Whether no message has the last query's words, or too few of them: the results are only near in meaning."""
        return self._without_quotes or not self._engine.worded

    @property
    def partly(self) -> bool:
        """Whether some of the words were found, but too few in any message; then the results are `by_meaning`."""
        return self._engine.partly

    @property
    def missing(self) -> list[str]:
        """The words of the last query that no message has, not even as a part of a word or misspelled."""
        return self._engine.missing

    def damaged(self, among: Among | None = None) -> int:
        """Return how many of the sessions that the last query could find are damaged: messages may be missing there."""
        found = self._listing.index.pairs(list(self._listing.sources), [("damage", "")])
        if found and self._query is not None:
            found = list(set(found).intersection(self._pairs(self._query)))
        return len(found if among is None else [pair for pair in found if among(*pair)])

    # ── the index ────────────────────────────────────────────────────────────────────────────────────

    def refresh(
        self, progress: Progress | None = None, *, meaning: bool = True, patient: bool = False, quick: bool = False
    ) -> bool:
        """Index what changed since the last time; return False if another process is doing that now.

        Without `patient`, embedding a large amount of text is left for later (`more_to_do`). With `quick`, changes are
        noticed as by a quick refresh of the list.
        """
        said = (lambda done, total: progress("Reading sessions", done, total)) if progress else None
        self._listing.refresh(said, quick=quick)
        done = self._engine.update(self._listing.index, progress, meaning=meaning, patient=patient)
        self.more_to_do = self._engine.more_to_do or self._listing.scan_due
        self.is_current, self._query = done, None
        return done

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
        among: Among | None = None,
    ) -> list[Found]:
        """Return the best sessions, each with its best messages. `leave_out` are ids of sessions to ignore.

        `among` says whether a session (store, id) may be found at all.
        """
        if fresh:
            self.refresh(meaning=not exact)

        def asked(query: Query) -> list[Found]:
            ranking = self._ranked(query, limit * per_session, exact, leave_out, among=among)
            found = self._near_enough(self._grouped(ranking, limit, per_session, self._check(query, leave_out)))
            return _merged(found, self._served(query, limit, per_session, exact, leave_out, among), limit)

        return _placed(self._or_unquoted(self._parsed(text, filters), asked, exact=exact))

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
        """Return the best messages, one match each; at most `per_session` of one session, unless it is 0."""
        if fresh:
            self.refresh(meaning=not exact)
        query = self._parsed(text, filters)
        found = self._or_unquoted(
            query, lambda query: self._messages(query, limit, per_session, leave_out, exact=exact), exact=exact
        )
        return _placed(found)

    def _messages(
        self, query: Query, limit: int, per_session: int, leave_out: Collection[str], *, exact: bool
    ) -> list[Found]:
        ranking = self._ranked(query, limit, exact, leave_out)
        check = self._check(query, leave_out)
        count: dict[tuple[str, str], int] = {}
        found: list[Found] = []
        wordless: list[Found] = []  # in a session that was found by its title, for example an image
        for item in ranking.best:
            row = item[1]
            if per_session and count.get((row.root, row.id), 0) >= per_session:
                continue
            matches = self._matches([item], 1, ranking, check)
            if matches and matches[0].snippet:
                count[row.root, row.id] = count.get((row.root, row.id), 0) + 1
                found.append(Found(row, matches, matches[0].score))
            elif matches:
                wordless.append(Found(row, matches, matches[0].score))
            if len(found) == limit:
                break
        found = found or wordless[:1]
        served = self._served(query, limit, per_session or limit, exact, leave_out)
        single = [Found(item.session, [match], match.score) for item in served for match in item.matches]
        return _merged(self._near_enough(found), single, limit)

    def _or_unquoted(self, query: Query, ask: Callable[[Query], list[Found]], *, exact: bool) -> list[Found]:
        """Return what is found; if nothing has the phrases of a question, what is found without their quotes."""
        self._without_quotes = False
        found = ask(query)
        unquoted = query.unquoted()
        if found or exact or unquoted is None:
            return found
        found = ask(unquoted)
        self._without_quotes = bool(found)
        return found

    def _parsed(self, text: str, filters: Mapping[str, str] | None) -> Query:
        query = parse(text, filters, lambda version: number(self._released(version)))
        self.unclear, self.filters, self._query = query.unclear, query.filters, query
        return query

    def naming(self, text: str, *, limit: int) -> list[Row]:
        """Return the sessions with a message that contains these words exactly, the best first; reads no message."""
        query = parse(text)
        ranking = self._ranked(query, 10 * limit, True, ())
        found = {(row.root, row.id): row for _, row, *_ in ranking.best}
        for item in self._served(query, limit, 1, True, ()):
            found.setdefault((item.session.root, item.session.id), item.session)
        return list(found.values())[:limit]

    def _served(
        self,
        query: Query,
        limit: int,
        per_session: int,
        exact: bool,
        leave_out: Collection[str],
        among: Among | None = None,
    ) -> list[Found]:
        """Return the best sessions that are on a server. This class knows none: see `served_search`."""
        return []

    def _near_enough(self, found: list[Found]) -> list[Found]:
        """If no message has the words, keep only results that are about as near as the nearest."""
        least = 0.0 if self._engine.worded else LEAST_BY_MEANING * _best_score(found)
        return [item for item in found if item.score >= least]

    def similar(self, row: Row, *, limit: int = 10) -> list[Found]:
        """Return sessions about the same topic as this one, by its rarest words and by its meaning."""
        texts = [row.title, row.summary]
        room = SAMPLE
        for message in self._listing.messages(row):
            if message.role in ("user", "assistant"):
                texts.append(message.text[:room])
                room -= len(texts[-1])
            if room <= 0:
                break
        words = self._engine.rarest("\n".join(texts), RAREST_WORDS)
        query = parse(" ".join(words))
        keys = self._engine.keys_of([(row.root, row.id)])
        ranking = self._ranked(query, limit * PER_SESSION, False, [row.id], like=keys[0] if keys else 0)
        return self._grouped(ranking, limit, 1, self._check(query, [row.id]))

    def _ranked(
        self,
        query: Query,
        wanted: int,
        exact: bool,
        leave_out: Collection[str],
        like: int = 0,
        among: Among | None = None,
    ) -> _Ranking:
        """Rank messages; a damaged index is rebuilt first."""
        try:
            return self._ranked_once(query, wanted, exact, leave_out, like, among)
        except BROKEN:
            self._engine.discard()
            self.refresh(patient=True)
            return self._ranked_once(query, wanted, exact, leave_out, like, among)

    def _ranked_once(
        self, query: Query, wanted: int, exact: bool, leave_out: Collection[str], like: int, among: Among | None
    ) -> _Ranking:
        keys, unwanted = self._keys(query, leave_out)
        if among is not None:
            pairs = [pair for pair in self._listing.pairs(list(self._listing.sources)) if among(*pair)]
            known = self._engine.keys_of(pairs)
            keys = known if keys is None else [key for key in known if key in set(keys)]
        reading = QueryReading(self._listing, self._engine.sessions, self._picking, leave_out)
        results = self._engine.find(
            query,
            keys=keys,
            leave_out=unwanted,
            limit=max(CANDIDATES, wanted * 5),
            exact=exact,
            like=like,
            read=reading.messages,
            decides=_deciding(query),
        )
        return _Ranking(_in_order(results, reading), results.terms, reading)

    def _keys(self, query: Query, leave_out: Collection[str]) -> tuple[Collection[int] | None, list[int]]:
        """Return the keys of the sessions that the filters allow (None: all), and of those to leave out."""
        wanted, workspace = _wanted(query), query.filters.get("workspace", "")
        sources = self._listing.sources
        unwanted = self._engine.keys_of([(root, name) for root in sources for name in leave_out])
        if not wanted and not workspace and not self._engine.strangers():
            return None, unwanted
        # While a query is typed, the same filters come again and again: the keys are kept until something changes.
        request = (*self._listing.index.counter(), self._engine.version(), workspace, *wanted.items())
        if request != self._allowed[0] or "status" in wanted:  # whether a session is in use is not in the index
            self._allowed = request, self._engine.keys_of(self._pairs(query))
        return self._allowed[1], unwanted

    def _pairs(self, query: Query) -> list[tuple[str, str]]:
        """Return (store, id) of the sessions that the filters allow."""
        workspace = query.filters.get("workspace", "")
        roots = self._listing.roots(workspace) if workspace else list(self._listing.sources)
        return self._listing.pairs(roots, **_wanted(query))

    def _check(self, query: Query, leave_out: Collection[str]) -> Check:
        """Return the check for messages; it also rejects copies of messages of the sessions that are left out."""
        return Check(query, self._engine.stems, self._left_out.messages(leave_out))

    def _grouped(self, ranking: _Ranking, limit: int, per_session: int, check: Check) -> list[Found]:
        groups: dict[tuple[str, str], list[Ranked]] = {}
        for count, item in enumerate(ranking.best, 1):
            groups.setdefault((item[1].root, item[1].id), []).append(item)
            # Twice as many as wanted, because some are copies or rejected by the filters.
            enough = max(AT_A_TIME, READ_PER_SESSION * limit, 2 * limit * per_session)
            if count >= enough and len(groups) >= 2 * limit:
                break  # the next message would look up another batch of sessions
        found: list[Found] = []
        for group in sorted(groups.values(), key=_session_score, reverse=True):
            matches = self._matches(group, per_session, ranking, check)
            if matches:
                found.append(Found(group[0][1], matches, round(_session_score(group), 4)))
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
            shown = self._snippet(message, ranking.terms)
            if matches and not shown[1] and score < LEAST_FURTHER * matches[0].score:
                continue  # it was only found because it is near the best one
            match = match_of(message, shown, ranking.reading.around(row, seq), score, why)
            (matches if match.snippet else wordless).append(match)
        return matches or wordless[:1]

    def _snippet(self, message: Message, terms: set[str]) -> tuple[str, list[tuple[int, int]]]:
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


def _deciding(query: Query) -> Callable[[str], float]:
    """Return what says how much of the query's subject a text decides; nothing does if it asks for no decision."""
    if not query.decision:
        return lambda text: 0.0
    from cortext.services.text.decisions import decided_share, topic_words

    subject = [word.text for word in query.wanted if word.text.lower() not in query.person]
    topic = topic_words(" ".join(subject))
    return lambda text: decided_share(text, topic)


def session_filters(query: Query) -> dict[str, str]:
    """Return the filters of a query that concern whole sessions."""
    return {name: query.filters[name] for name in SESSION_FILTERS if name in query.filters}


def _wanted(query: Query) -> dict[str, str]:
    """Return the filters by which the list chooses sessions."""
    wanted = session_filters(query)
    if "after" in query.filters:  # a session that was last active before has no such message
        wanted["after"] = timestamp(query.filters["after"])
    return wanted


def _beginning(message: Message | None) -> str:
    return shortened(clean(searchable(message))) if message is not None else ""


def _session_score(group: list[Ranked]) -> float:
    # Rounded: sums of the same numbers in another order may differ in their last digits.
    return round(group[0][0] + FURTHER_MATCH * sum(item[0] for item in group[1:PER_SESSION]), 6)


def _best_score(found: Iterable[Found]) -> float:
    return max((item.score for item in found), default=0.0)


def _merged(local: list[Found], served: list[Found], limit: int) -> list[Found]:
    """Return both lists as one. Their scores are computed differently, so the best of each gets the same score."""
    if not served:
        return local
    top, best = _best_score(local) or 1.0, _best_score(served) or 1.0
    scaled = [item._replace(score=round(item.score / best * top, 4)) for item in served]
    scaled.sort(key=lambda item: item.score, reverse=True)
    return sorted([*local, *scaled], key=lambda item: item.score, reverse=True)[:limit]


def _placed(found: Sequence[Found]) -> list[Found]:
    rows = placed(item.session for item in found)
    return [item._replace(session=row) for item, row in zip(found, rows, strict=True)]


def hit_json(row: Row, match: Match, *, nearest: bool = False) -> Json:
    """Return a message that was found, with its session; `nearest` as in `Search.by_meaning`."""
    message = {name: getattr(match, name) for name in ("id", "seq", "role", "timestamp", "snippet")}
    return {
        "session": session_json(row),
        "message": message,
        "score": match.score,
        "why": list(match.why),
        "nearest": nearest,
    }
