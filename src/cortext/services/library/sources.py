"""Where sessions are listed: the index of those in files, and the servers. Each answers by itself; a merge joins them.

A source returns only what it can decide for itself, with the status that lists show. Whether a server that does not
answer is an error is the caller's choice (see `Listing.reachable`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import product
from operator import attrgetter, itemgetter
from typing import Any, NamedTuple, Protocol

from cortext.errors import CortextError
from cortext.index.refresh import StoreSource
from cortext.index.sessions import Row, SessionIndex, row_of
from cortext.io import locks
from cortext.model.order import tag_name
from cortext.model.query import (
    AMONG,
    ANY,
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
from cortext.model.session import ACTIVE, INTERRUPTED, Session
from cortext.store.base import TORN, Store
from cortext.store.files.layout_paths import lock_file
from cortext.store.server_capabilities import COMPARED, ServerQueries

NEEDED = ("id", "root", "status")  # columns that a merge needs, beside the one it orders by
Cells = tuple[Any, ...]
Where = list[tuple[str, str]]  # filters, or columns, with the values to compare


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

    @property
    def on_server(self) -> Where:
        """The conditions that a server compares."""
        return [condition for condition in self.where if condition[0] in COMPARED]

    @property
    def beside_server(self) -> Where:
        """The conditions that a server cannot compare."""
        return [condition for condition in self.where if condition[0] not in COMPARED]


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
    """What lists sessions."""

    def cells(self, columns: Sequence[str], chosen: Selection) -> list[Cells]:
        """Return these columns (NEEDED and the order among them) of the sessions, ordered, at least up to the limit."""
        ...


class IndexedSessions:
    """The sessions in files, from the index."""

    def __init__(self, index: SessionIndex, stores: Mapping[str, StoreSource], roots: Sequence[str]) -> None:
        self._index, self._stores, self._roots = index, stores, roots

    def cells(self, columns: Sequence[str], chosen: Selection) -> list[Cells]:
        """See SessionSource."""
        spawn = {root for root in self._roots if self._stores[root].kind == "spawn"}
        hidden = set(self.abandoned(spawn))
        hidden |= set() if chosen.own_commands else set(self._index.asking(self._roots))
        is_cut = chosen.limit > 0 and not chosen.status and chosen.order != "title"
        most = chosen.limit + len(hidden) if is_cut else 0
        found: list[Cells] = []
        for status in chosen.statuses:
            where = [*chosen.where, *status]
            found += self._index.cells(columns, self._roots, where, limit=most, order=chosen.order)
        name, root, shown = (columns.index(column) for column in NEEDED)
        if hidden:
            found = [cells for cells in found if (cells[root], cells[name]) not in hidden]
        if spawn:
            for number, cells in enumerate(found):  # they end with their process
                if cells[shown] == ACTIVE and cells[root] in spawn and not self.is_held(cells[root], cells[name]):
                    found[number] = (*cells[:shown], INTERRUPTED, *cells[shown + 1 :])
        return _with_status(found, shown, chosen.status)

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


class ServedStore(Store, ServerQueries, Protocol):
    """A store on a server."""


class ServerSource:
    """One store on a server, for the list of sessions."""

    def __init__(self, root: str, kind: str, store: ServedStore) -> None:
        self.root, self.kind, self.store = root, kind, store

    def rows(self, where: Sequence[tuple[str, str]] = (), *, limit: int = 0, order: str = "last_active") -> list[Row]:
        """Return the sessions with these properties, the newest first."""
        if any(name == "damage" for name, _ in where):
            return [self.row(self.store.get(session_id)) for session_id in self.store.miscounted()]
        ways = product(*([(name, each) for each in _values(name, value)] for name, value in where))
        found = [session for way in ways for session in self.store.listed(way, limit=limit, order=order)]
        rows = [self.row(session) for session in found]
        if any(len(_values(*pair)) > 1 for pair in where):
            rows.sort(key=attrgetter(order, "id"), reverse=True)
            rows = rows[:limit] if limit > 0 else rows
        return rows

    def row(self, session: Session) -> Row:
        """Return a session as a row of the list."""
        return row_of(session, self.root, self.kind)


def _values(name: str, value: str) -> list[str]:
    """Return the values that a filter names; a server is asked for each of several."""
    return several(value) if name in FILTERS and FILTERS[name].several == ANY else [value]


class ServedSessions:
    """The sessions of one server, which keeps its own list; `rows` asks it."""

    def __init__(self, server: ServerSource, rows: Callable[[ServerSource, Where, int, str], list[Row]]) -> None:
        self._server, self._rows = server, rows

    def cells(self, columns: Sequence[str], chosen: Selection) -> list[Cells]:
        """See SessionSource. What the server cannot decide is decided here, and then every session is needed.

        It knows nothing of tags and the archive, but most sessions are in no archive.
        """
        beside = chosen.beside_server
        every = chosen.status in (INTERRUPTED, ACTIVE, DAMAGED) or any(value != "0" for _, value in beside)
        most = 0 if every or not chosen.limit else 2 * chosen.limit + 50 if beside else chosen.limit
        found: list[Row] = []
        for status in chosen.statuses:
            inside: list[Row] = []
            for number in (most, 0):
                rows = self._rows(self._server, [*chosen.on_server, *status], number, chosen.order)
                inside = [row for row in rows if all(meets(row, *condition) for condition in beside)]
                if not number or len(rows) < number or len(inside) >= chosen.limit:
                    break
            found += inside
        return _with_status(list(map(attrgetter(*columns), found)), columns.index("status"), chosen.status)


def merged(sources: Sequence[SessionSource], columns: Sequence[str], chosen: Selection) -> list[Cells]:
    """Return these columns of the sessions of all sources: titles from A to Z, everything else descending."""
    fetched = tuple(dict.fromkeys((*columns, *NEEDED, chosen.order)))
    found = [cells for source in sources for cells in source.cells(fetched, chosen)]
    order, name = fetched.index(chosen.order), fetched.index("id")
    if chosen.order == "title":
        found.sort(key=lambda cells: ((cells[order] or cells[name]).casefold(), cells[name]))
    elif len(sources) > 1 or len(chosen.statuses) > 1:
        found.sort(key=itemgetter(order, name), reverse=True)
    if len(fetched) > len(columns):
        found = [cells[: len(columns)] for cells in found]
    return found[: chosen.limit] if chosen.limit > 0 else found


def _with_status(found: list[Cells], column: int, status: str) -> list[Cells]:
    return [cells for cells in found if cells[column] == status] if status not in ("", DAMAGED) else found
