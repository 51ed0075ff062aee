"""Stores on a server, as lists and search use them: the server itself lists and searches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from cortext.index.sessions import Row
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
        return [self.row(session) for session in self.store.listed(where, limit=limit, order=order)]

    def row(self, session: Session) -> Row:
        """Return a session as a row of the list."""
        return row_of(session, self.root, self.kind)
