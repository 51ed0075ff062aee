"""Connections to one server, from psycopg's pool: taken, returned, replaced when they break.

The work to do is a function of a connection. It may be called again after a connection was lost, when nobody knows
whether the server had finished it: so it must be repeatable, and what adds something checks first.
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
from cortext.store.postgres.driver import Connection, ConnectionPool, PoolTimeout, as_error, lost, psycopg, unwanted

Result = TypeVar("Result")

# Engines that run transactions side by side ask for some of them to be tried again.
_COLLIDED = ("40001", "40P01")
_TRIES = 12
_MOST = 50  # connections of one process; more threads than that wait for each other
_POLL = 0.05  # seconds between two looks at why there is no connection yet
_IDLE = psycopg.pq.TransactionStatus.IDLE
FIRST_PATIENCE = 1.0


class Connections:
    """The connections of this process to one server, as many as are in use at once."""

    def __init__(self, url: str, *, patience: float, lock_timeout: float, lease: float) -> None:
        if not is_address(url):
            raise ConfigError("this is no address of a server", hint="it looks like postgresql://user@host/database")
        if is_ambiguous(url):
            raise ConfigError(
                "the address of the server cannot be read",
                hint="characters like @ / : in a user or password are written %40 %2F %3A",
            )
        self.name = masked(url)
        self.patience = patience
        # A transaction that waits for us, or that we forgot because this process was stopped, does not last.
        milliseconds = max(1, round(lock_timeout * 1000)), max(1, round(lease * 1000))
        self._opener = _Opener(
            url,
            self.name,
            f"SET lock_timeout = {milliseconds[0]}; SET idle_in_transaction_session_timeout = {milliseconds[1]}; "
            "SET default_transaction_isolation = 'read committed'",
        )
        # By process: a fork must not use its parent's connections, nor close them.
        self._pools: dict[int, ConnectionPool[Connection]] = {}
        # Whether the server can write to two tables in one statement.
        self.whole = True
        weakref.finalize(self, _close, self._pools)

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
                patience = self.patience if self._opener.ready else min(self.patience, FIRST_PATIENCE)
                deadline = deadline or time.monotonic() + patience
                again = collided < _TRIES if error.sqlstate in _COLLIDED else lost(error)
                if not again or time.monotonic() >= deadline or unwanted(error):
                    raise as_error(error, self.name) from error
                time.sleep(pause)
                pause = min(pause * 2, 0.25)
            except BaseException:
                if connection is not None:
                    self._give_back(connection, broken=True)  # it may be in the middle of a statement
                raise
            else:
                self._give_back(connection)
                return result

    def query(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """The rows that one statement gives."""
        return self.run(lambda connection: connection.execute(query.encode(), values).fetchall())

    def close(self) -> None:
        """Close every connection; the next use opens a new one."""
        _close(self._pools)

    def _take(self) -> Connection:
        """A connection; what went wrong with connecting is raised at once, not when the pool's timeout is over."""
        pool = self._pool()
        self._opener.failure = None
        deadline = time.monotonic() + max(self.patience, 2 * _POLL)
        while True:
            try:
                return pool.getconn(timeout=_POLL)
            except PoolTimeout:
                if (failure := self._opener.failure) is not None:
                    raise failure from None
                if time.monotonic() >= deadline and not self._opener.busy:  # all of them are in use
                    raise

    def _give_back(self, connection: Connection, *, broken: bool = False) -> None:
        if broken or connection.pgconn.transaction_status != _IDLE:
            connection.close()  # the pool replaces it
        self._pool().putconn(connection)

    def _pool(self) -> ConnectionPool[Connection]:
        process = os.getpid()
        pool = self._pools.get(process)
        if pool is None:
            new = ConnectionPool(
                connection_class=self._opener.connection_class(),
                min_size=0,
                max_size=_MOST,
                num_workers=1,
                reconnect_timeout=0.0,  # `run` tries again
                open=False,
            )
            pool = self._pools.setdefault(process, new)  # another thread may have been faster
        pool.open()
        return pool


class _Opener:
    """Opens connections for a pool, and remembers why that failed: the pool would only report a timeout."""

    def __init__(self, url: str, name: str, begin: str) -> None:
        self._url, self._name, self._begin = url, name, begin
        self.ready = False  # the server has answered, and its tables are as they should be
        self.busy = False  # a connection is being opened
        self.failure: Exception | None = None

    def connection_class(self) -> type[Connection]:
        """The class that the pool makes connections of."""
        opener = self

        class Opened(psycopg.Connection[tuple[Any, ...]]):
            @classmethod
            def connect(cls, *given: Any, **more: Any) -> Any:
                opener.busy = True
                try:
                    return opener.open(super().connect)
                except Exception as error:
                    opener.failure = error
                    raise
                finally:
                    opener.busy = False

        return Opened

    def open(self, connect: Callable[..., Any]) -> Any:
        """A new connection, set up for our use."""
        more: dict[str, Any] = {"client_encoding": "utf8", "application_name": "cortext"}
        # A host that vanished without a word is noticed.
        usual = {"connect_timeout": 5, "keepalives_idle": 10, "keepalives_interval": 5, "tcp_user_timeout": 15_000}
        more |= {name: value for name, value in usual.items() if name not in self._url}
        try:
            connection = connect(self._url, autocommit=True, **more)
        except psycopg.ProgrammingError:
            # The driver's message about an address that it cannot parse repeats parts of it.
            raise ConfigError("the address of the server cannot be read", hint="postgresql://user@host/name") from None
        try:
            connection.execute(self._begin.encode())
            if not self.ready:
                postgres_schema.prepare(connection, self._name)
                self.ready = True
        except BaseException:
            connection.close()
            raise
        return connection


def _close(pools: dict[int, ConnectionPool[Connection]]) -> None:
    """Close the pool of this process."""
    pool = pools.pop(os.getpid(), None)
    if pool is not None:
        pool.close(timeout=1.0)
