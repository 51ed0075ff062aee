"""Connections to one server: taken, given back, opened again when they break.

What is to be done is a function of a connection. It may be called again after a connection was lost, when nobody
knows whether the server had done it: so it must be one that can be repeated, and those that add something ask first.
"""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

from cortext.errors import ConfigError
from cortext.safety.addresses import is_address, is_ambiguous, masked
from cortext.store.postgres import schema as postgres_schema
from cortext.store.postgres.driver import Connection, lost, psycopg, told, unwanted

Result = TypeVar("Result")

# Engines that run transactions side by side ask for some of them to be tried again.
_COLLIDED = ("40001", "40P01")
_TRIES = 12
_IDLE = psycopg.pq.TransactionStatus.IDLE
FIRST_PATIENCE = 1.0


class Connections:
    """A few connections to one server, as many as are in use at once."""

    def __init__(self, url: str, *, patience: float, lock_timeout: float, lease: float) -> None:
        if not is_address(url):
            raise ConfigError("this is no address of a server", hint="it looks like postgresql://user@host/database")
        if is_ambiguous(url):
            raise ConfigError(
                "the address of the server cannot be read",
                hint="characters like @ / : in a user or password are written %40 %2F %3A",
            )
        self._url = url
        self.name = masked(url)
        self.patience = patience
        # A transaction that waits for us, or that we forgot because this process was stopped, does not last.
        milliseconds = max(1, round(lock_timeout * 1000)), max(1, round(lease * 1000))
        self._begin = (
            f"SET lock_timeout = {milliseconds[0]}; SET idle_in_transaction_session_timeout = {milliseconds[1]}; "
            "SET default_transaction_isolation = 'read committed'"
        )
        self._idle: list[Connection] = []
        self._pid = os.getpid()
        self._ready = False
        # Whether the server can write to two tables in one statement.
        self.whole = True
        self._end = weakref.finalize(self, _close, self._idle)

    def run(self, work: Callable[[Connection], Result]) -> Result:
        """Do the work, once more with a new connection where one broke; our own errors for everything else."""
        deadline = 0.0
        collided = 0
        pause = 0.01
        while True:
            connection = None
            try:
                connection = self._take()
                result = work(connection)
            except psycopg.Error as error:
                if connection is not None:
                    self._give_back(connection, broken=lost(error))
                collided += error.sqlstate in _COLLIDED
                # A server that answered before is worth waiting for: it may be restarting.
                patience = self.patience if self._ready else min(self.patience, FIRST_PATIENCE)
                deadline = deadline or time.monotonic() + patience
                again = collided < _TRIES if error.sqlstate in _COLLIDED else lost(error)
                if not again or time.monotonic() >= deadline or unwanted(error):
                    raise told(error, self.name) from error
                time.sleep(pause)
                pause = min(pause * 2, 0.25)
            except BaseException:
                if connection is not None:
                    self._give_back(connection, broken=True)  # who knows in the middle of what it was
                raise
            else:
                self._give_back(connection)
                return result

    def query(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """The rows that one statement gives."""
        return self.run(lambda connection: connection.execute(query.encode(), values).fetchall())

    def close(self) -> None:
        """Let go of every connection; the next use opens a new one."""
        _close(self._idle)

    def _take(self) -> Connection:
        if self._pid != os.getpid():  # a fork must not talk on its parent's connections
            self._idle, self._pid = [], os.getpid()
            self._end = weakref.finalize(self, _close, self._idle)
        try:
            return self._idle.pop()
        except IndexError:
            return self._open()

    def _give_back(self, connection: Connection, *, broken: bool = False) -> None:
        if broken or connection.pgconn.transaction_status != _IDLE:  # in the middle of something, or closed
            connection.close()
        else:
            self._idle.append(connection)

    def _open(self) -> Connection:
        more: dict[str, Any] = {"client_encoding": "utf8", "application_name": "cortext"}
        # A host that vanished without a word is noticed.
        usual = {"connect_timeout": 5, "keepalives_idle": 10, "keepalives_interval": 5, "tcp_user_timeout": 15_000}
        more |= {name: value for name, value in usual.items() if name not in self._url}
        try:
            connection = psycopg.connect(self._url, autocommit=True, **more)
        except psycopg.ProgrammingError:
            # What the driver says of an address that it cannot read repeats parts of it.
            raise ConfigError("the address of the server cannot be read", hint="postgresql://user@host/name") from None
        try:
            connection.execute(self._begin.encode())
            if not self._ready:
                postgres_schema.prepare(connection, self.name)
                self._ready = True
        except BaseException:
            connection.close()
            raise
        return connection


def _close(connections: list[Connection]) -> None:
    while connections:
        connections.pop().close()
