"""Search over every session of every store: by words and by meaning, the best first, with what stands beside it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from cortext.index.search.engine import Engine
from cortext.index.search.generation import BROKEN, Status
from cortext.index.search.models import Models
from cortext.index.search.query import FILTERS, Query, parse, timestamp
from cortext.index.search.reading import around
from cortext.index.search.words import clean, searchable
from cortext.index.sessions import Row
from cortext.model.message import Message
from cortext.safety import terminal
from cortext.services.library.json_views import Json, session_json
from cortext.services.library.listing import Listing
from cortext.services.library.search_check import Check
from cortext.services.library.search_times import check_filters
from cortext.services.library.snippets import shortened, snippet

Ranked = tuple[float, "Row", int]  # score, session, number of the message

Progress = Callable[[str, int, int], None]


class Match(NamedTuple):
    """A message that was found; `before` and `after` are the beginnings of its neighbours.

    `highlights` are the (start, end) of the words that were searched for, in the snippet.
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


class Found(NamedTuple):
    """A session with its messages that were found, the best first."""

    session: Row
    matches: list[Match]
    score: float


__all__ = ["FILTERS", "Found", "Match", "Search", "check_filters", "hit_json"]

OTHERS = 0.1  # what a session's further matches add to its score, each
PER_SESSION = 3
WORTH = 0.6  # of the best message's score: what a further one without the words must have
FAINT = 0.6  # of the best score: what is farther is left out where no message has the words
CANDIDATES = 300
AT_A_TIME = 60  # messages whose sessions are looked up together
ENOUGH = 6  # messages for each session that is wanted, looked at before the sessions are put in order
TELLING = 24  # words of a session that others are compared by
LENT = 20_000  # characters of a session that they are taken from


def nearest_to(query: str) -> str:
    """What people read above results of which none has the words (`Search.by_meaning`)."""
    text = terminal.line(" ".join(query.split()))
    return f'No message contains "{text if len(text) <= 60 else text[:59] + "…"}"; the nearest in meaning:'


class Search:
    """Search in the sessions of a listing."""

    def __init__(self, listing: Listing, folder: str, models: Models) -> None:
        self._listing = listing
        self._engine = Engine(folder, listing.sources, models)
        self.more_to_do = False
        self._allowed: tuple[tuple[object, ...], list[int]] = ((), [])  # the last filters, and the keys they allowed

    @property
    def trouble(self) -> str:
        """Why the last query was answered without meaning; mostly empty."""
        return self._engine.trouble

    @property
    def by_meaning(self) -> bool:
        """Whether no message has the words of the last query: what was found is only near in meaning."""
        return not self._engine.worded

    # ── keeping up ───────────────────────────────────────────────────────────────────────────────────

    def refresh(self, progress: Progress | None = None, *, meaning: bool = True, patient: bool = False) -> bool:
        """Take in what changed since the last time; False where another process is doing that right now.

        Without `patient`, very much to read for its meaning is left for later (`more_to_do`).
        """
        self._listing.refresh((lambda done, total: progress("Reading sessions", done, total)) if progress else None)
        done = self._engine.update(self._listing.index, progress, meaning=meaning, patient=patient)
        self.more_to_do = self._engine.more_to_do or self._listing.scan_due
        return done

    def rebuild(self, progress: Progress | None = None) -> None:
        """Make the index anew; the old one answers until it is done."""
        self._listing.refresh()
        self._engine.rebuild(self._listing.index, progress)

    def clear(self) -> None:
        """Delete the index; it comes back at the next query."""
        self._engine.clear()

    def status(self) -> Status:
        """What the index holds, how large it is, and whether it is behind the sessions."""
        self._listing.refresh()
        return self._engine.status(self._listing.index)

    # ── asking ───────────────────────────────────────────────────────────────────────────────────────

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
        """The best sessions, each with its best messages. `leave_out` are ids of sessions that are not wanted."""
        if fresh:
            self.refresh(meaning=not exact)
        query = parse(text, filters)
        ranked, lit = self._ranked(query, limit * per_session, exact, leave_out)
        return self._clear(self._grouped(ranked, limit, per_session, lit, self._check(query, leave_out)))

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
        """The best messages, one match each; `per_session` (where it is not 0) is how many of one session at most."""
        if fresh:
            self.refresh(meaning=not exact)
        query = parse(text, filters)
        ranked, lit = self._ranked(query, limit, exact, leave_out)
        check = self._check(query, leave_out)
        count: dict[tuple[str, str], int] = {}
        found: list[Found] = []
        for item in ranked:
            row = item[1]
            if per_session and count.get((row.root, row.id), 0) >= per_session:
                continue
            matches = self._matches([item], 1, lit, check)
            if matches:
                count[row.root, row.id] = count.get((row.root, row.id), 0) + 1
                found.append(Found(row, matches, matches[0].score))
            if len(found) == limit:
                break
        return self._clear(found)

    def _clear(self, found: list[Found]) -> list[Found]:
        """Where no message has the words, only what is about as near as the nearest is an answer."""
        least = FAINT * max((item.score for item in found), default=0.0) if self.by_meaning else 0.0
        return [item for item in found if item.score >= least]

    def similar(self, row: Row, *, limit: int = 10) -> list[Found]:
        """Sessions that are about the same as this one: by its telling words, and by its meaning."""
        said = [row.title, row.summary]
        room = LENT
        for message in self._listing.messages(row):
            if message.role in ("user", "assistant"):
                said.append(message.text[:room])
                room -= len(said[-1])
            if room <= 0:
                break
        words = self._engine.rarest("\n".join(said), TELLING)
        query = parse(" ".join(words))
        keys = self._engine.keys_of([(row.root, row.id)])
        ranked, lit = self._ranked(query, limit * PER_SESSION, False, [row.id], like=keys[0] if keys else 0)
        return self._grouped(ranked, limit, 1, lit, self._check(query, [row.id]))

    def _ranked(
        self, query: Query, wanted: int, exact: bool, leave_out: Collection[str], like: int = 0
    ) -> tuple[Iterator[Ranked], set[str]]:
        """Messages, the best first; an index that turns out to be damaged is made anew first."""
        try:
            return self._ranked_once(query, wanted, exact, leave_out, like)
        except BROKEN:
            self._engine.discard()
            self.refresh(patient=True)
            return self._ranked_once(query, wanted, exact, leave_out, like)

    def _ranked_once(
        self, query: Query, wanted: int, exact: bool, leave_out: Collection[str], like: int
    ) -> tuple[Iterator[Ranked], set[str]]:
        """Ties are in an order that does not depend on how the index came about."""
        keys, unwanted = self._keys(query, leave_out)
        limit = max(CANDIDATES, wanted * 5)
        scores, lit = self._engine.find(query, keys=keys, leave_out=unwanted, limit=limit, exact=exact, like=like)
        return self._in_order(scores, leave_out), lit

    def _in_order(self, scores: Mapping[tuple[int, int], float], leave_out: Collection[str]) -> Iterator[Ranked]:
        """The messages with their sessions; these are looked up a few at a time, as far as somebody wants them."""
        best = sorted(((round(score, 6), key, seq) for (key, seq), score in scores.items()), reverse=True)
        rows: dict[int, tuple[Row, int] | None] = {}
        place = 0
        while place < len(best):
            end = min(place + AT_A_TIME, len(best))
            while end < len(best) and best[end][0] == best[end - 1][0]:
                end += 1  # those with the same score stay together, to be put in order
            lot = best[place:end]
            self._look_up({key for _, key, _ in lot} - rows.keys(), rows, leave_out)
            ranked = [
                (score, known[0], seq) for score, key, seq in lot if (known := rows[key]) is not None and seq < known[1]
            ]
            ranked.sort(key=lambda item: (item[0], item[1].last_active, item[1].id, -item[2]), reverse=True)
            yield from ranked
            place = end

    def _look_up(
        self, keys: Collection[int], rows: dict[int, tuple[Row, int] | None], leave_out: Collection[str]
    ) -> None:
        named = self._engine.sessions(keys)
        found = self._listing.index.named([(root, name) for root, name, _ in named.values()])
        for key in keys:
            root, name, count = named.get(key, ("", "", 0))
            row = found.get((root, name))
            shown = row is not None and name not in leave_out and root in self._listing.sources
            rows[key] = (row, count) if row is not None and shown else None

    def _keys(self, query: Query, leave_out: Collection[str]) -> tuple[Collection[int] | None, list[int]]:
        """The keys of the sessions that the filters allow (None: all), and of those to leave out."""
        wanted: dict[str, str] = {
            name: query.filters[name] for name in ("tool", "type", "status", "agent") if name in query.filters
        }
        if "after" in query.filters:  # what has been quiet since then holds no such message
            wanted["after"] = timestamp(query.filters["after"])
        place = query.filters.get("workspace", "")
        sources = self._listing.sources
        unwanted = self._engine.keys_of([(root, name) for root in sources for name in leave_out])
        if not wanted and not place and not self._engine.strangers():
            return None, unwanted
        # Who types a query asks with the same filters again and again: what they allow is kept until something changes.
        asked = (*self._listing.index.counter(), self._engine.version(), place, *wanted.items())
        if asked != self._allowed[0] or "status" in wanted:  # whether a session is in use, no list knows
            pairs = self._listing.pairs(self._listing.roots(place) if place else list(sources), **wanted)
            self._allowed = asked, self._engine.keys_of(pairs)
        return self._allowed[1], unwanted

    def _check(self, query: Query, leave_out: Collection[str]) -> Check:
        """What a message must be to be shown. Of sessions that are left out, copies of their messages are too."""
        ids = set()
        for row in self._listing.index.named(
            [(root, name) for root in self._listing.sources for name in leave_out]
        ).values():
            ids |= {message.id for message in self._listing.messages(row)}
        return Check(query, self._engine.stems, ids)

    def _grouped(
        self, ranked: Iterable[Ranked], limit: int, per_session: int, lit: set[str], check: Check
    ) -> list[Found]:
        groups: dict[tuple[str, str], list[Ranked]] = {}
        for number, item in enumerate(ranked, 1):
            groups.setdefault((item[1].root, item[1].id), []).append(item)
            # Twice as many as wanted: some are copies, or not what the filters allow.
            if number >= max(AT_A_TIME, ENOUGH * limit) and len(groups) >= 2 * limit:
                break  # before the next is asked for, and many more sessions looked up for it
        found: list[Found] = []
        for group in sorted(groups.values(), key=_session_score, reverse=True):
            matches = self._matches(group, per_session, lit, check)
            if matches:
                found.append(Found(group[0][1], matches, round(_session_score(group), 4)))
            if len(found) == limit:
                break
        return found

    def _matches(self, group: Iterable[Ranked], most: int, lit: set[str], check: Check) -> list[Match]:
        """The best messages of one session as they are shown; what stands beside one of them is shown with it."""
        matches: list[Match] = []
        taken: list[int] = []
        for score, row, seq in group:
            if len(matches) == most:
                break
            if any(abs(other - seq) <= 1 for other in taken):
                continue
            near = around(self._listing.sources[row.root], row.id, row.path, seq)
            message = near.get(seq)
            if message is None:
                continue
            if check.is_copy(message):  # a fork's, or of a session that is left out: what stands beside it is too
                taken.append(seq)
                continue
            if not check.allows(message, row):
                continue
            taken.append(seq)
            shown, spans = snippet(clean(searchable(message)), lit, self._engine.tokens)
            if matches and not spans and score < WORTH * matches[0].score:
                continue  # it only stands near the best one
            beside = (_said(near.get(seq - 1)), _said(near.get(seq + 1)))
            facts = (message.id, seq, message.role, message.timestamp)
            matches.append(Match(*facts, shown, spans, round(score, 4), *beside))
        return matches


def _said(message: Message | None) -> str:
    return shortened(clean(searchable(message))) if message is not None else ""


def _session_score(group: list[Ranked]) -> float:
    # Rounded: sums of the same numbers in another order may differ in their last digits.
    return round(group[0][0] + OTHERS * sum(item[0] for item in group[1:PER_SESSION]), 6)


def hit_json(row: Row, match: Match) -> Json:
    """A message that a search found, with its session."""
    message = {name: getattr(match, name) for name in ("id", "seq", "role", "timestamp", "snippet")}
    return {"session": session_json(row), "message": message, "score": match.score}
