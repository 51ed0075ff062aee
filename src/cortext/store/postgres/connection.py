"""Connections to one server, from psycopg's pool: borrowed, returned, replaced when they break.

Work is passed as a function of a connection. It may be called again after the connection was lost, when it is unknown
whether the server had finished it. So it must be idempotent: code that inserts checks first what is already there.
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
from cortext.store.postgres.driver import (
    Connection,
    ConnectionPool,
    PoolTimeout,
    as_error,
    connection_lost,
    login_refused,
    psycopg,
)

Result = TypeVar("Result")

# Serialization failure and deadlock: the server asks for the transaction to be retried.
_CONFLICTS = ("40001", "40P01")
_TRIES = 12
_MAX_CONNECTIONS = 50  # of one process; further threads wait for a free one
_POLL = 0.05  # seconds between two checks for a failed connection attempt
_IDLE = psycopg.pq.TransactionStatus.IDLE
FIRST_PATIENCE = 1.0  # seconds to retry a server that has never answered


class Connections:
    """The connections of this process to one server, opened on demand."""

    def __init__(self, url: str, *, patience: float, lock_timeout: float, lease: float) -> None:
        if not is_address(url):
            raise ConfigError("invalid server address", hint="use the form postgresql://user@host/database")
        if is_ambiguous(url):
            raise ConfigError(
                "ambiguous server address",
                hint="write @ / : in a user or password as %40 %2F %3A",
            )
        self.name = masked(url)
        self.patience = patience
        # The server gives up waiting for a lock, and ends a transaction that this process left open while suspended.
        milliseconds = max(1, round(lock_timeout * 1000)), max(1, round(lease * 1000))
        self._opener = _Opener(
            url,
            self.name,
            f"SET lock_timeout = {milliseconds[0]}; SET idle_in_transaction_session_timeout = {milliseconds[1]}; "
            "SET default_transaction_isolation = 'read committed'",
        )
        # By process id: a fork must neither use nor close its parent's connections.
        self._pools: dict[int, ConnectionPool[Connection]] = {}
        # Cleared for engines that cannot write to two tables in one statement.
        self.can_write_two_tables = True
        weakref.finalize(self, _close, self._pools)

    def run(self, work: Callable[[Connection], Result]) -> Result:
        """Return what `work` returns; retry with a new connection if one broke. Driver errors become ours."""
        deadline = 0.0
        conflicts = 0
        pause = 0.01
        while True:
            connection = None
            try:
                connection = self._borrow()
                result = work(connection)
            except psycopg.Error as error:
                if connection is not None:
                    self._return(connection, broken=connection_lost(error))
                conflicts += error.sqlstate in _CONFLICTS
                # A server that has answered before may be restarting, so it gets the full patience.
                patience = self.patience if self._opener.ready else min(self.patience, FIRST_PATIENCE)
                deadline = deadline or time.monotonic() + patience
                retry = conflicts < _TRIES if error.sqlstate in _CONFLICTS else connection_lost(error)
                if not retry or time.monotonic() >= deadline or login_refused(error):
                    raise as_error(error, self.name) from error
                time.sleep(pause)
                pause = min(pause * 2, 0.25)
            except BaseException:
                if connection is not None:
                    self._return(connection, broken=True)  # a statement may be in progress
                raise
            else:
                self._return(connection)
                return result

    def query(self, query: str, *values: object) -> list[tuple[Any, ...]]:
        """Execute one statement and return its rows."""
        return self.run(lambda connection: connection.execute(query.encode(), values).fetchall())

    def close(self) -> None:
        """Close every connection; the next query opens a new one."""
        _close(self._pools)

    def _borrow(self) -> Connection:
        """Borrow a connection. A failed connection attempt is raised at once, not after the pool's timeout."""
        pool = self._pool()
        self._opener.failure = None
        deadline = time.monotonic() + max(self.patience, 2 * _POLL)
        while True:
            try:
                return pool.getconn(timeout=_POLL)
            except PoolTimeout:
                if (failure := self._opener.failure) is not None:
                    raise failure from None
                if time.monotonic() >= deadline and not self._opener.busy:  # all connections are in use
                    raise

    def _return(self, connection: Connection, *, broken: bool = False) -> None:
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
                max_size=_MAX_CONNECTIONS,
                num_workers=1,
                reconnect_timeout=0.0,  # `run` retries
                open=False,
            )
            pool = self._pools.setdefault(process, new)  # another thread may have set it first
        pool.open()
        return pool


class _Opener:
    """Opens connections for a pool and records why that failed, because the pool would only report a timeout."""

    def __init__(self, url: str, name: str, setup: str) -> None:
        self._url, self._name, self._setup = url, name, setup
        self.ready = False  # the server has answered and its schema is up to date
        self.busy = False  # a connection is being opened
        self.failure: Exception | None = None

    def connection_class(self) -> type[Connection]:
        """Return the connection class for the pool."""
        opener = self

        class PooledConnection(psycopg.Connection[tuple[Any, ...]]):
            @classmethod
            def connect(cls, *_: Any, **__: Any) -> Any:
                opener.busy = True
                try:
                    return opener.open(super().connect)
                except Exception as error:
                    opener.failure = error
                    raise
                finally:
                    opener.busy = False

        return PooledConnection

    def open(self, connect: Callable[..., Any]) -> Any:
        """Return a new connection with our session settings; migrate the schema first if needed."""
        options: dict[str, Any] = {"client_encoding": "utf8", "application_name": "cortext"}
        # Detect a host that disappeared without closing the connection.
        defaults = {"connect_timeout": 5, "keepalives_idle": 10, "keepalives_interval": 5, "tcp_user_timeout": 15_000}
        options |= {name: value for name, value in defaults.items() if name not in self._url}
        try:
            connection = connect(self._url, autocommit=True, **options)
        except psycopg.ProgrammingError:
            # The driver's message repeats parts of the address, possibly the password.
            raise ConfigError("invalid server address", hint="use the form postgresql://user@host/database") from None
        try:
            connection.execute(self._setup.encode())
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
