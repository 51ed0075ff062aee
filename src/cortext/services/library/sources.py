"""Where sessions are listed: the index of those in files, and the servers (`served_sessions`). Each answers by itself;
a merge joins them to one answer.

A source returns only what it can decide for itself, with the status that lists show. Whether a server that does not
answer is an error is the caller's choice (see `Listing.reachable`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple, Protocol

from cortext.errors import CortextError, StoreUnreachable
from cortext.index.refresh import StoreSource
from cortext.index.sessions import COLUMNS, Row, SessionIndex
from cortext.io import locks
from cortext.model import clock
from cortext.model.message import Message
from cortext.model.order import tag_name
from cortext.model.query import (
    AMONG,
    DAMAGED,
    FILTERS,
    SINCE,
    WORD,
    Filter,
    Query,
    check_filters,
    comparable_time,
    several,
)
from cortext.model.session import ACTIVE, INTERRUPTED
from cortext.model.wording import amount
from cortext.store.base import TORN, Store
from cortext.store.files.layout_paths import lock_file

NEEDED = ("id", "root", "status")  # columns that a merge needs, beside the one it orders by
Cells = tuple[Any, ...]
Where = list[tuple[str, str]]  # filters, or columns, with the values to compare
ForksOf = Callable[[Sequence[str]], list[Row]]  # returns the forks of sessions with these ids, the oldest first


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
    """A session with the messages found in it, the best first; none in a list."""

    session: Row
    matches: list[Match]
    score: float = 0.0


class Answer(NamedTuple):
    """What a list or a search found, in order, and what to know about it."""

    hits: Sequence[SessionHit] = ()
    is_only_near: bool = False  # no message has the words, or too few of them: the hits are only near in meaning
    has_few: bool = False  # if so: some of the words were found
    absent: Mapping[str, str] = {}  # what of the query occurs nowhere, by what was looked for instead
    unclear: str = ""  # what sounds like a time, but is none that is known
    silent: str = ""  # the time that was asked for, if nothing was said then: "yesterday (2026-11-18)"
    filters: Mapping[str, str] = {}  # those that were applied, also if they were in the text
    meaningless: str = ""  # why only words were compared, not meanings
    is_current: bool = True  # whether everything was indexed when the index was last brought up to date
    damaged: int = 0  # sessions among those that were asked for whose messages may be missing
    away: Mapping[str, StoreUnreachable] = {}  # the servers that did not answer, by address

    @property
    def rows(self) -> list[Row]:
        """The sessions."""
        return [hit.session for hit in self.hits]

    @property
    def names(self) -> list[str]:
        """What the sessions are called on a screen: of several with the same name, with what tells them apart.

        That is the project, the day, the minute or the id: the first that is another one for each of them.
        """
        alike: dict[str, list[Row]] = {}
        for row in self.rows:
            alike.setdefault(" ".join(row.name.split()).casefold(), []).append(row)
        shown = {(row.root, row.id): name for rows in alike.values() for row, name in _told_apart(rows)}
        return [shown[row.root, row.id] for row in self.rows]

    @property
    def incomplete(self) -> str:
        """Why something may be missing, in a sentence; empty if nothing is."""
        reasons = [error.message for error in self.away.values()]
        return incomplete_line(reasons, is_current=self.is_current, damaged=self.damaged)

    def check_whole(self) -> None:
        """Raise StoreUnreachable if a server did not answer."""
        for error in self.away.values():
            raise error


_DIFFERENCES: tuple[Callable[[Row], str], ...] = (
    lambda row: os.path.basename(row.project.rstrip("/")),
    lambda row: clock.day(row.last_active),
    lambda row: clock.minute(row.last_active),
    lambda row: row.id,
)


def _told_apart(rows: Sequence[Row]) -> Iterator[tuple[Row, str]]:
    """Yield sessions of one name, each with the name to show."""
    distinct = list({(row.root, row.id): row for row in rows}.values())
    if len(distinct) == 1 or not distinct[0].title:
        yield from ((row, row.name) for row in distinct)
        return
    for difference in _DIFFERENCES:
        values = [difference(row) for row in distinct]
        if len(set(values)) == len(values) or difference is _DIFFERENCES[-1]:
            yield from (
                (row, f"{row.name} · {value}" if value else row.name)
                for row, value in zip(distinct, values, strict=True)
            )
            return


def incomplete_line(missing: Iterable[str], *, is_current: bool = True, damaged: int = 0) -> str:
    """Return why an answer may lack something, in the words of every face; empty if it is complete.

    `missing` says why servers did not answer; `is_current` is False if the index is behind; `damaged` counts the
    damaged sessions among those that were asked for.
    """
    reasons = "; ".join(dict.fromkeys(missing))
    away = f"Sessions are missing: {reasons}." if reasons else ""
    behind = "" if is_current else "Another process is indexing right now: the newest messages may be missing."
    several = f"{amount(damaged, 'session')} {'is' if damaged == 1 else 'are'}"
    broken = f"{several} damaged, so messages may be missing: `cortext doctor` says what to do." if damaged else ""
    return " ".join(filter(None, (away, behind, broken)))


class Selection(NamedTuple):
    """The filters of a query, ready to be compared: folders instead of a project, timestamps instead of "7d"."""

    where: Where  # without the status
    status: str
    limit: int
    order: str
    own_commands: bool

    @property
    def statuses(self) -> list[Where]:
        """The conditions on what is stored as the status: one of them must hold.

        A session is shown as interrupted if it is stored so, or if it is stored as active and its holder has died.
        """
        if not self.status:
            return [[]]
        if self.status == DAMAGED:
            return [[("damage", "")]]
        stored = (ACTIVE, INTERRUPTED) if self.status == INTERRUPTED else (self.status,)
        return [[("status", one)] for one in stored]

    def checked(self, found: list[Cells], column: int) -> list[Cells]:
        """Return those of the sessions that are shown with the status, which is in this column."""
        if self.status in ("", DAMAGED):
            return found
        return [cells for cells in found if cells[column] == self.status]


EVERYTHING = Selection([], "", 0, "last_active", own_commands=True)


def selection(query: Query, projects_of: Callable[[str], Sequence[str]]) -> Selection:
    """Return the filters of a query in comparable form. Raises UsageError for an invalid time."""
    where: Where = []
    for name, filter in FILTERS.items():
        value = query.filters.get(name, "")
        if value and name != "status":
            where += [(column, each) for column, each in _compared(name, filter, value, projects_of)]
    return Selection(where, query.filters.get("status", ""), query.limit, query.order, query.own_commands)


def _compared(name: str, filter: Filter, value: str, projects_of: Callable[[str], Sequence[str]]) -> Where:
    """Return the conditions that a filter with this value stands for; none if it is not about the session itself."""
    if filter.flags:
        words = value.lower().split(",")
        return [(flag, "1" if flag in words else "0") for flag in filter.flags if {flag, f"un{flag}"} & {*words}]
    if not filter.column:
        return []
    if filter.is_time:
        check_filters({name: value})
        return [(name, comparable_time(name, value))]
    if filter.compare == AMONG:
        return [(name, json.dumps(projects_of(value)))]
    if filter.compare == WORD:
        return [(name, tag_name(tag)) for tag in value.split(",") if tag.strip()]
    return [(name, value)]


def meets(row: Row, name: str, value: str) -> bool:
    """Whether a session meets a condition, as the index would compare it."""
    filter = FILTERS.get(name) or Filter("", column=name)
    held = str(getattr(row, filter.column))
    if filter.compare == AMONG:
        return held in json.loads(value)
    if filter.compare == WORD:
        return value in held.split()
    if filter.is_time:
        return held >= value if filter.compare == SINCE else held <= value
    return held in (several(value) if filter.several else [value])


class SessionSource(Protocol):
    """What lists the sessions of some stores: the index those in files, a server its own. It may not answer: each
    method raises StoreUnreachable."""

    @property
    def kinds(self) -> Mapping[str, str]:
        """Its stores, and the kind of each."""
        ...

    @property
    def address(self) -> str:
        """The address of the server; empty: it always answers."""
        ...

    def cells(self, columns: Sequence[str], chosen: Selection, roots: Sequence[str]) -> list[Cells]:
        """Return these columns of the sessions in these stores, ordered, at least up to the limit.

        NEEDED and the order are among the columns.
        """
        ...

    def row(self, root: str, session_id: str) -> Row | None:
        """Return the session with this id; None if there is none."""
        ...

    def named(self, wanted: str) -> list[Row]:
        """Return the sessions among which a name is looked up: at least those with what was typed in their names."""
        ...

    def forks_of(self, root: str) -> ForksOf:
        """Return what finds the forks of sessions of this store."""
        ...

    def projects(self) -> list[tuple[str, str]]:
        """Return the folders that sessions are about, each with its repository."""
        ...

    def state(self, *, exact: bool = True) -> tuple[object, ...]:
        """Return a value that changes with what is listed; unless `exact`, a server is not asked for it."""
        ...

    def opened(self, root: str) -> Store:
        """Return a store."""
        ...

    def messages(self, row: Row) -> Iterator[Message]:
        """Return the messages of a session."""
        ...

    def message(self, row: Row, seq: int) -> Message | None:
        """Return one message of a session, without decoding those before it; None if it does not exist."""
        ...


class IndexedSessions:
    """The sessions in files, from the index."""

    address = ""

    def __init__(self, index: SessionIndex, stores: Mapping[str, StoreSource]) -> None:
        self._index, self._stores = index, stores
        self.kinds = {root: store.kind for root, store in stores.items()}

    def cells(self, columns: Sequence[str], chosen: Selection, roots: Sequence[str]) -> list[Cells]:
        """See SessionSource."""
        spawn = {root for root in roots if self._stores[root].kind == "spawn"}
        hidden = set(self.abandoned(spawn))
        hidden |= set() if chosen.own_commands else set(self._index.asking(roots))
        is_cut = chosen.limit > 0 and not chosen.status and chosen.order != "title"
        most = chosen.limit + len(hidden) if is_cut else 0
        found: list[Cells] = []
        for status in chosen.statuses:
            where = [*chosen.where, *status]
            found += self._index.cells(columns, roots, where, limit=most, order=chosen.order)
        name, root, shown = (columns.index(column) for column in NEEDED)
        if hidden:
            found = [cells for cells in found if (cells[root], cells[name]) not in hidden]
        if spawn:
            for number, cells in enumerate(found):  # they end with their process
                if cells[shown] == ACTIVE and cells[root] in spawn and not self.is_held(cells[root], cells[name]):
                    found[number] = (*cells[:shown], INTERRUPTED, *cells[shown + 1 :])
        return chosen.checked(found, shown)

    def row(self, root: str, session_id: str) -> Row | None:
        """See SessionSource."""
        return self._index.named([(root, session_id)]).get((root, session_id))

    def named(self, wanted: str) -> list[Row]:
        """See SessionSource. These are all."""
        return [tuple.__new__(Row, cells) for cells in self.cells(COLUMNS, EVERYTHING, [*self._stores])]

    def forks_of(self, root: str) -> ForksOf:
        """See SessionSource."""
        return partial(self._index.forks, root)

    def projects(self) -> list[tuple[str, str]]:
        """See SessionSource."""
        return self._index.projects([*self._stores])

    def state(self, *, exact: bool = True) -> tuple[object, ...]:
        """See SessionSource."""
        return self._index.counter()

    def opened(self, root: str) -> Store:
        """See SessionSource."""
        return self._stores[root].store

    def messages(self, row: Row) -> Iterator[Message]:
        """See SessionSource."""
        from cortext.index.search.reading import messages

        return messages(self._stores[row.root], row.id, row.path)

    def message(self, row: Row, seq: int) -> Message | None:
        """See SessionSource."""
        from cortext.index.search.reading import Picking

        return Picking().picked(self._stores[row.root], row.id, row.path, [seq]).get(seq)

    def abandoned(self, roots: Collection[str]) -> Iterator[tuple[str, str]]:
        """Yield (store, id) of sessions without messages that no process holds, which no list shows.

        `roots` are spawn stores, where a session ends with its process: that one was killed, or is about to lock the
        session it has just created (see expiry.drop_abandoned).
        """
        for root in roots:
            for session_id, damage in self._index.active_without_messages(root):
                if not self.is_held(root, session_id) and (not damage or self._is_only_torn(root, session_id)):
                    yield root, session_id

    def _is_only_torn(self, root: str, session_id: str) -> bool:
        """Whether the only damage of a session is a torn line, left by a process that was killed."""
        try:
            return all(item.kind == TORN for item in self._stores[root].store.check(session_id))
        except (CortextError, OSError):
            return False

    def is_held(self, root: str, session_id: str) -> bool:
        """Whether a process holds a session now."""
        return locks.read_holder(lock_file(self._stores[root].control, session_id)) is not None


Ask = Callable[[SessionSource, Callable[[], list[Cells]]], list[Cells] | None]


def merged(
    sources: Iterable[SessionSource], columns: Sequence[str], chosen: Selection, roots: Collection[str], ask: Ask
) -> list[Cells]:
    """Return these columns of the sessions in some stores of all sources: titles from A to Z, the rest descending.

    `ask` decides what an answer is worth that a source does not give.
    """
    fetched = tuple(dict.fromkeys((*columns, *NEEDED, chosen.order)))
    found: list[Cells] = []
    answers = 0
    for source in sources:
        if some := [root for root in source.kinds if root in roots]:
            found += ask(source, partial(source.cells, fetched, chosen, some)) or []
            answers += 1
    order, name = fetched.index(chosen.order), fetched.index("id")
    if chosen.order == "title":
        found.sort(key=lambda cells: ((cells[order] or cells[name]).casefold(), cells[name]))
    elif answers > 1 or len(chosen.statuses) > 1:
        found.sort(key=itemgetter(order, name), reverse=True)
    if len(fetched) > len(columns):
        found = [cells[: len(columns)] for cells in found]
    return found[: chosen.limit] if chosen.limit > 0 else found
