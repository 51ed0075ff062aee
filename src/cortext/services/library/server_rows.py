"""Stores on a server, as lists and search use them: the server itself lists and searches."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from operator import attrgetter
from typing import Protocol

from cortext.index.sessions import SEVERAL, Row, several
from cortext.model.session import Session
from cortext.services.library.json_views import row_of
from cortext.store.base import Store
from cortext.store.server_capabilities import ServerQueries


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
    return several(value) if name in SEVERAL else [value]
