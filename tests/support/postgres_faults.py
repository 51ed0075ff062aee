"""Deaths of a client of the server: at one of its statements, before or after the server has done it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Self, cast
from unittest import mock

import psycopg

from cortext.store.postgres.connection import Connections
from tests.store.crash.faults import Dead
from tests.store.crash.talk import Actor, Event
from tests.support import postgres


class DieAt:
    """The process dies at its n-th call (0: it lives): before the server hears it, or before the answer is heard."""

    def __init__(self, number: int, *, after: bool) -> None:
        self._number, self._after = number, after
        self.calls = 0
        self._thread = threading.get_ident()
        self._patches = [
            mock.patch.object(psycopg.Connection, "execute", self._counted(psycopg.Connection.execute)),
            mock.patch.object(psycopg.Cursor, "executemany", self._counted(psycopg.Cursor.executemany)),
            # The end of a whole piece of work: its transaction is committed, and nobody was told.
            mock.patch.object(Connections, "run", self._counted(Connections.run)),
        ]

    def _counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counting(this: Any, *words: Any, **options: Any) -> Any:
            if threading.get_ident() != self._thread:  # what renews leases dies with the rest, not by itself
                return call(this, *words, **options)
            self.calls += 1
            mine = self.calls == self._number
            if mine and not self._after:
                raise Dead
            answer = call(this, *words, **options)
            if mine:
                raise Dead
            return answer

        return counting

    def __enter__(self) -> Self:
        for patch in self._patches:
            patch.start()
        return self

    def __exit__(self, *error: object) -> None:
        for patch in self._patches:
            patch.stop()


class ServerActor(Actor):
    """Does things to one session on the shared server (see Actor). The lease of a dead one soon runs out."""

    def __init__(self, space: str, note: Callable[[Event], None]) -> None:
        self.space = space
        self.layout = "postgres"
        self._note = note
        self.server = postgres.store_of(space, lease=0.1)
        self.store = cast(Any, self.server)

    def reopen(self) -> None:
        self.server.close()
        self.server = postgres.store_of(self.space, lease=0.1)
        self.store = cast(Any, self.server)
