"""Connections to one server, from psycopg's pool: borrowed, returned, replaced when they break.

Work is passed as a function of a connection. It may be called again after the connection was lost, when it is unknown
whether the server had finished it. So it must be idempotent: code that inserts checks first what is already there.

Nothing waits for ever: connecting, each statement and all retries together have a limit of their own (`Limits`). The
limit of a statement is enforced here as well as by the server, because a server that is stopped enforces nothing.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from cortext.errors import ConfigError
from cortext.safety.credentials import SCHEMES, is_ambiguous, mask_address
from cortext.server import schema
from cortext.server.driver import (
    Connection,
    ConnectionPool,
    PoolTimeout,
    as_error,
    connection_lost,
    is_refused,
    limited,
    lost_prepared_statement,
    psycopg,
)

Result = TypeVar("Result")

# Serialization failure and deadlock: the server asks for the transaction to be retried.
_CONFLICTS = ("40001", "40P01")
_TRIES = 12
_MAX_CONNECTIONS = 50  # of one process; further threads wait for a free one
_CHECK_SECONDS = 60.0  # between two checks of the version of the tables
_GRACE = 2.0  # seconds that the server gets to enforce the limit of a statement before we do
_POLL = 0.05  # seconds between two checks for a failed connection attempt
_IDLE = psycopg.pq.TransactionStatus.IDLE
_WHO = b"SELECT pg_backend_pid(), current_user, EXISTS (SELECT 1 FROM pg_extension WHERE extname = 'citus')"
FIRST_PATIENCE = 1.0  # seconds to retry a server that has never answered


class Limits(NamedTuple):
    """How long to wait for a server, in seconds."""

    patience: float = 10.0  # how long to retry while it restarts
    connect: float = 5.0  # for a connection
    statement: float = 30.0  # for one statement
    idle: float = 60.0  # until an unused connection is closed


class Connections:
    """The connections of this process to one server, opened on demand."""

    def __init__(self, url: str, *, limits: Limits, lock_timeout: float, lease: float, owner: str = "") -> None:
        if not url.startswith(SCHEMES):
            raise ConfigError("invalid server address", hint="use the form postgresql://user@host/database")
        if is_ambiguous(url):
            raise ConfigError(
                "ambiguous server address",
                hint="write @ / : in a user or password as %40 %2F %3A",
            )
        self.name = mask_address(url)
        self.limits = limits
        self._owner = owner
        # The server gives up waiting for a lock, and ends a transaction that this process left open while suspended.
        settings = {
            "lock_timeout": _milliseconds(lock_timeout),
            "idle_in_transaction_session_timeout": _milliseconds(lease),
            "statement_timeout": _milliseconds(limits.statement),
            "default_transaction_isolation": "'read committed'",
        }
        self._opener = _Opener(url, self.name, limits, settings)
        # By process id: a fork must neither use nor close its parent's connections.
        self._pools: dict[int, ConnectionPool[Connection]] = {}
        weakref.finalize(self, _close, self._pools)

    @property
    def is_service(self) -> bool:
        """Whether the owner is a setting, because many people share one role."""
        return bool(self._owner)

    @property
    def owner(self) -> str:
        """Who owns what this process writes: by default the role that the server knows us by."""
        if not self._owner and not self._opener.user:
            self.run(lambda connection: None)
        return self._owner or self._opener.user

    @property
    def pooled(self) -> bool:
        """Whether a pooler is between this process and the server; known after the first connection."""
        return self._opener.pooled

    @property
    def can_write_two_tables(self) -> bool:
        """Whether one statement may write to two tables; known after the first connection."""
        return self._opener.can_write_two_tables

    def cannot_write_two_tables(self) -> None:
        """Note that the engine refuses a statement that writes to two tables."""
        self._opener.can_write_two_tables = False

    def run(self, work: Callable[[Connection], Result], *, breaks: int = 0) -> Result:
        """Return what `work` returns; retry with a new connection if one broke. Driver errors become ours.

        With `breaks`, give up after the work itself broke that many connections: it may be what crashes the server.
        """
        deadline = 0.0
        conflicts = broken = 0
        pause = 0.01
        while True:
            # Returned to where it came from: `close` in another thread makes the next call open a new pool.
            pool = self._pool()
            connection = None
            try:
                connection = self._borrow(pool)
                self._opener.check_again(connection)
                result = work(connection)
            except psycopg.Error as error:
                lost = connection_lost(error)
                if lost_prepared_statement(error):
                    self._opener.found_pooler()
                    lost = True
                if connection is not None:
                    _return(pool, connection, broken=lost)
                    broken += lost
                conflicts += error.sqlstate in _CONFLICTS
                # A server that has answered before may be restarting, so it gets the full patience.
                patience = self.limits.patience if self._opener.ready else min(self.limits.patience, FIRST_PATIENCE)
                deadline = deadline or time.monotonic() + patience
                retry = conflicts < _TRIES if error.sqlstate in _CONFLICTS else lost
                given_up = time.monotonic() >= deadline or 0 < breaks <= broken
                if not retry or given_up or is_refused(error):
                    raise as_error(error, self.name, self._opener.user) from error
                time.sleep(pause)
                pause = min(pause * 2, 0.25)
            except BaseException:
                if connection is not None:
                    _return(pool, connection, broken=True)  # a statement may be in progress
                raise
            else:
                _return(pool, connection)
                return result

    def query(self, query: str, *values: object, breaks: int = 0) -> list[tuple[Any, ...]]:
        """Execute one statement and return its rows; `breaks`: see `run`."""
        return self.run(lambda connection: connection.execute(query.encode(), values).fetchall(), breaks=breaks)

    def close(self) -> None:
        """Close every connection; the next query opens a new one."""
        _close(self._pools)

    def _borrow(self, pool: ConnectionPool[Connection]) -> Connection:
        """Borrow a connection. A failed connection attempt is raised at once, not after the pool's timeout."""
        self._opener.failure = None
        deadline = time.monotonic() + max(self.limits.patience, 2 * _POLL)
        while True:
            try:
                return pool.getconn(timeout=_POLL)
            except PoolTimeout:
                if (failure := self._opener.failure) is not None:
                    raise failure from None
                if time.monotonic() >= deadline and not self._opener.busy:  # all connections are in use
                    raise

    def _pool(self) -> ConnectionPool[Connection]:
        process = os.getpid()
        pool = self._pools.get(process)
        if pool is None:
            new = ConnectionPool(
                connection_class=self._opener.connection_class(),
                min_size=0,
                max_size=_MAX_CONNECTIONS,
                max_idle=self.limits.idle,
                num_workers=1,
                reconnect_timeout=0.0,  # `run` retries
                open=False,
            )
            pool = self._pools.setdefault(process, new)  # another thread may have set it first
        pool.open()
        return pool


class _Opener:
    """Opens connections for a pool and records why that failed, because the pool would only report a timeout."""

    def __init__(self, url: str, name: str, limits: Limits, settings: dict[str, str]) -> None:
        self._url, self._name, self._limits, self._settings = url, name, limits, settings
        self.ready = False  # the server has answered and its schema is up to date
        self.busy = False  # a connection is being opened
        self.failure: Exception | None = None
        self.user = ""  # the role that the server knows us by
        self.pooled = False
        self.can_write_two_tables = True
        self._checked = 0.0

    def check_again(self, connection: Connection) -> None:
        """From time to time, check that the tables still suit this release: an administrator may migrate them."""
        if time.monotonic() - self._checked > _CHECK_SECONDS:
            schema.prepare(connection, self._name)
            self._checked = time.monotonic()

    def found_pooler(self) -> None:
        """Note that the statements of a connection reach several sessions of the server."""
        self.pooled = True

    def connection_class(self) -> type[Connection]:
        """Return the connection class for the pool."""
        opener = self
        limit = self._limits.statement + _GRACE

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

            def wait(self, gen: Any, *words: Any, **options: Any) -> Any:
                return super().wait(limited(gen, self, limit), *words, **options)

        return PooledConnection

    def open(self, connect: Callable[..., Any]) -> Any:
        """Return a new connection with our session settings; prepare the schema first if needed."""
        options: dict[str, Any] = {"client_encoding": "utf8", "application_name": "cortext"}
        # Detect a host that disappeared without closing the connection.
        defaults = {
            "connect_timeout": max(2, round(self._limits.connect)),  # libpq takes whole seconds, and at least two
            "keepalives_idle": 10,
            "keepalives_interval": 5,
            "tcp_user_timeout": 15_000,
        }
        options |= {name: value for name, value in defaults.items() if name not in self._url}
        try:
            connection = connect(self._url, autocommit=True, **options)
        except psycopg.ProgrammingError:
            # The driver's message repeats parts of the address, possibly the password.
            raise ConfigError("invalid server address", hint="use the form postgresql://user@host/database") from None
        try:
            self._set_up(connection)
            schema.prepare(connection, self._name)
            self.ready, self._checked = True, time.monotonic()
        except BaseException:
            connection.close()
            raise
        return connection

    def _set_up(self, connection: Connection) -> None:
        """Apply our session settings, unless a pooler would hand them to somebody else's statements."""
        if not self.pooled:
            row = connection.execute(_WHO).fetchone() or (0, "", False)
            self.user = str(row[1])
            # Citus commits such a statement in two phases: if a node is lost between them, the session is locked until
            # Citus recovers it, a minute later. Two statements in a transaction on one node commit at once.
            self.can_write_two_tables = self.can_write_two_tables and not row[2]
            # A pooler invents the process id that it tells its clients.
            self.pooled = row[0] != connection.info.backend_pid
        if self.pooled:
            # The next statement may reach another session of the server, which has not prepared anything.
            connection.prepare_threshold = None
            return
        settings = "; ".join(f"SET {name} = {value}" for name, value in self._settings.items())
        connection.execute(settings.encode())


def _milliseconds(seconds: float) -> str:
    return str(max(1, round(seconds * 1000)))


def _return(pool: ConnectionPool[Connection], connection: Connection, *, broken: bool = False) -> None:
    if broken or connection.pgconn.transaction_status != _IDLE:
        connection.close()  # the pool replaces it
    pool.putconn(connection)


def _close(pools: dict[int, ConnectionPool[Connection]]) -> None:
    """Close the pool of this process."""
    pool = pools.pop(os.getpid(), None)
    if pool is None:
        return
    if threading.current_thread().name.startswith(pool.name):
        # A garbage collection in one of the pool's own threads, which cannot wait for itself.
        threading.Thread(target=pool.close, kwargs={"timeout": 1.0}, daemon=True).start()
    else:
        pool.close(timeout=1.0)
