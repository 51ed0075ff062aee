"""Simulated deaths of a client: at one of its statements, before or after the server executed it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Self, cast
from unittest import mock

import psycopg

from cortext.server.connection import Connections
from tests.store.crash.actor import Actor, Event
from tests.store.crash.faults import Dead
from tests.support import postgres


class DieAt:
    """Die at the n-th call (0: never): before the server receives it, or before its answer is received."""

    def __init__(self, number: int, *, after: bool) -> None:
        self._number, self._after = number, after
        self.calls = 0
        self._thread = threading.get_ident()
        self._patches = [
            mock.patch.object(psycopg.Connection, "execute", self._counted(psycopg.Connection.execute)),
            mock.patch.object(psycopg.Cursor, "executemany", self._counted(psycopg.Cursor.executemany)),
            # The end of a transaction: it is committed, but the caller does not know.
            mock.patch.object(Connections, "run", self._counted(Connections.run)),
        ]

    def _counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counting(this: Any, *words: Any, **options: Any) -> Any:
            if threading.get_ident() != self._thread:  # the thread that renews leases is not counted
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
    """An Actor on the shared server, with a lease that expires soon after it dies."""

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
