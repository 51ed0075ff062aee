"""The sessions of one store on a server, which keeps its own list. Imported only if there is a server."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from operator import attrgetter
from typing import Protocol

from cortext.errors import SessionNotFound
from cortext.index.sessions import Row, row_of
from cortext.model.ids import is_id
from cortext.model.message import Message
from cortext.model.query import ANY, DAMAGED, FILTERS, several
from cortext.model.session import ACTIVE, INTERRUPTED, Session
from cortext.services.library.sources import Cells, ForksOf, Selection, Where, meets
from cortext.store.base import Store
from cortext.store.server_capabilities import COMPARED, ServerQueries

MOST_FORKS = 500  # forks that a server is asked for, the newest
NEWEST = 1000  # sessions of a server among which a name is looked up with typing errors
CHANGED_SECONDS = 60.0  # after which it counts as changed, where it is not asked


class ServedStore(Store, ServerQueries, Protocol):
    """A store on a server."""


class ServedSessions:
    """The sessions of one store on a server."""

    def __init__(self, root: str, kind: str, store: ServedStore) -> None:
        self.root, self.kind, self.store = root, kind, store

    @property
    def kinds(self) -> Mapping[str, str]:
        """See SessionSource."""
        return {self.root: self.kind}

    @property
    def address(self) -> str:
        """See SessionSource. Several stores are at one address."""
        return self.root.partition("#")[0]

    def rows(self, where: Sequence[tuple[str, str]] = (), *, limit: int = 0, order: str = "last_active") -> list[Row]:
        """Return the sessions with these properties, the newest first."""
        if any(name == "damage" for name, _ in where):
            return [self.shown(self.store.get(session_id)) for session_id in self.store.miscounted()]
        ways = product(*([(name, each) for each in _values(name, value)] for name, value in where))
        found = [session for way in ways for session in self.store.listed(way, limit=limit, order=order)]
        rows = [self.shown(session) for session in found]
        if any(len(_values(*pair)) > 1 for pair in where):
            rows.sort(key=attrgetter(order, "id"), reverse=True)
            rows = rows[:limit] if limit > 0 else rows
        return rows

    def shown(self, session: Session) -> Row:
        """Return a session as a row of the list."""
        return row_of(session, self.root, self.kind)

    def cells(self, columns: Sequence[str], chosen: Selection, roots: Sequence[str]) -> list[Cells]:
        """See SessionSource. What the server cannot decide is decided here, and then every session is needed.

        It knows nothing of tags and the archive, but most sessions are in no archive.
        """
        there, beside = divided(chosen.where)
        every = chosen.status in (INTERRUPTED, ACTIVE, DAMAGED) or any(value != "0" for _, value in beside)
        most = 0 if every or not chosen.limit else 2 * chosen.limit + 50 if beside else chosen.limit
        found: list[Row] = []
        for status in chosen.statuses:
            inside: list[Row] = []
            for number in (most, 0):
                rows = self.rows([*there, *status], limit=number, order=chosen.order)
                inside = [row for row in rows if all(meets(row, *condition) for condition in beside)]
                if not number or len(rows) < number or len(inside) >= chosen.limit:
                    break
            found += inside
        return chosen.checked(list(map(attrgetter(*columns), found)), columns.index("status"))

    def row(self, root: str, session_id: str) -> Row | None:
        """See SessionSource."""
        try:
            return self.shown(self.store.get(session_id)) if is_id(session_id) else None
        except SessionNotFound:
            return None

    def named(self, wanted: str) -> list[Row]:
        """See SessionSource. Of many, these are the newest and those whose names contain what was typed."""
        newest = self.rows(limit=NEWEST)
        pieces = [("named", piece) for piece in wanted.split()[:8]]
        return [*newest, *(self.rows(pieces, limit=NEWEST) if len(newest) == NEWEST and pieces else [])]

    def forks_of(self, root: str) -> ForksOf:
        """See SessionSource. A server cannot look for what a session was forked from, but a fork's name says it is one.

        It is asked once.
        """
        forks = self.rows([("named", "fork")], limit=MOST_FORKS)
        forks.sort(key=attrgetter("created_at", "id"))
        return lambda names: [row for row in forks if row.parent in names]

    def projects(self) -> list[tuple[str, str]]:
        """See SessionSource."""
        return [(row.project, row.repository) for row in self.rows()]

    def state(self, *, exact: bool = True) -> tuple[object, ...]:
        """See SessionSource. Its newest session changes with its list, except for one that is removed."""
        if not exact:
            return (time.monotonic() // CHANGED_SECONDS,)
        return tuple((row.root, row.id, row.message_count, row.last_active) for row in self.rows(limit=1))

    def opened(self, root: str) -> Store:
        """See SessionSource."""
        return self.store

    def messages(self, row: Row) -> Iterator[Message]:
        """See SessionSource."""
        return iter(self.store.read(row.id))

    def message(self, row: Row, seq: int) -> Message | None:
        """See SessionSource."""
        found = next(iter(self.store.read(row.id, seq)), None)
        return found if found is not None and found.seq == seq else None


def divided(where: Where) -> tuple[Where, Where]:
    """Return the conditions that a server compares, and those that it cannot."""
    return [one for one in where if one[0] in COMPARED], [one for one in where if one[0] not in COMPARED]


def _values(name: str, value: str) -> list[str]:
    """Return the values that a filter names; a server is asked for each of several."""
    return several(value) if name in FILTERS and FILTERS[name].several == ANY else [value]
