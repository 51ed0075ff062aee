"""The PostgreSQL store, for sessions shared by several machines: see base.Store and capabilities.

It gives the same guarantees as a store of files, with leases (`lease`) in place of lock files.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from operator import attrgetter
from typing import Any

import msgspec

from cortext.errors import invalid_trash_key, not_in_trash, session_exists, session_exists_again, session_not_found
from cortext.model import clock
from cortext.model.ids import check_id, is_id
from cortext.model.message import Message
from cortext.model.session import Change, Session, check_status
from cortext.model.threads import Outline
from cortext.server import repair, search
from cortext.server.assistant import ServerChats, ServerFacts, ServerUpdates
from cortext.server.connection import Connections, Limits
from cortext.server.driver import Connection, psycopg
from cortext.server.lease import FREE, Lease, Leases, ServerChores, ServerClaims
from cortext.server.log import AppendBatch, ServerReading, SessionChanges, life_of, tail
from cortext.server.rows import SESSION, columns_of, from_row, hour_of, session_from
from cortext.server.scope import LISTED, LIVE, Own, ServerShares
from cortext.store.base import Damage, RepairReport, Trashed
from cortext.store.files.lines import BadLine
from cortext.store.server_capabilities import Claim, ServerHit, ServerState

LOCK_TIMEOUT = 5.0
LEASE = 10.0
PAGE = 500
DEFAULT_LIMITS = Limits()
# The default type of sessions by space.
_TYPES = {"spawn": "spawn", "chat": "chat"}

_CREATE = """
INSERT INTO cortext.sessions
    (session_id, life, space, owner, created_at, last_active, last_hour,
    record, type, title, status, agent, tool, summary)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
"""
_GET = f"SELECT {SESSION} FROM cortext.sessions WHERE {LIVE}"
_ALL = f"""
SELECT {SESSION} FROM cortext.sessions
WHERE {LISTED} AND session_id > %s ORDER BY session_id LIMIT {PAGE}
"""
_LIFE = f"SELECT life FROM cortext.sessions WHERE {LIVE}"
_DELETE = f"""
UPDATE cortext.sessions
SET deleted_at = %s, holder = NULL, token = NULL, held_until = NULL, fence = fence + 1
WHERE {LIVE} AND {FREE} RETURNING life
"""
_TRASH = """
SELECT session_id, life, deleted_at FROM cortext.sessions WHERE space = %s AND owner = %s AND deleted_at IS NOT NULL
ORDER BY deleted_at DESC, life DESC
"""
_RESTORE = """
UPDATE cortext.sessions SET deleted_at = NULL
WHERE session_id = %s AND life = %s AND space = %s AND owner = %s AND deleted_at IS NOT NULL RETURNING life
"""

Transform = Callable[[dict[str, Any]], dict[str, Any]]


class PostgresStore:
    """The sessions of one space (home, spawn, chat) on a server."""

    name = "postgres"
    shared = False

    def __init__(
        self,
        url: str,
        space: str = "home",
        *,
        lock_timeout: float = LOCK_TIMEOUT,
        lease: float = LEASE,
        limits: Limits = DEFAULT_LIMITS,
        owner: str = "",
    ) -> None:
        self.space = space
        self.lock_timeout = lock_timeout
        self.connections = Connections(
            url, limits=limits, lock_timeout=max(lock_timeout, 1.0), lease=lease, owner=owner
        )
        self.scope = self._scope()
        self.leases = Leases(self.connections, self.scope, timeout=lock_timeout, seconds=lease)
        self.root = f"{self.connections.name}#{space}"
        self.changes = SessionChanges(self.connections, self.leases, self.scope, self._session)
        self._thread = threading.local()  # holds the claim that the thread works under

    def _scope(self) -> Own:
        return Own(self.connections, self.space)

    def close(self) -> None:
        """Stop renewing leases and close the connections."""
        self.leases.close()
        self.connections.close()

    # ── sessions ─────────────────────────────────────────────────────────────────────────────────────

    def create(self, session: Session) -> Session:
        check_id(session.id)
        check_status(session.status)
        created = clock.normalise(session.created_at) or clock.now()
        active = clock.normalise(session.last_active) or created
        kind = session.type or _TYPES.get(self.space, "")
        session = msgspec.structs.replace(session, created_at=created, type=kind)
        life = time.time_ns()
        owner = self.scope.owner
        values = (session.id, life, self.space, owner, created, active, hour_of(active), *columns_of(session))

        def insert(connection: Connection) -> None:
            try:
                connection.execute(_CREATE.encode(), values)
            except psycopg.errors.UniqueViolation:
                live = connection.execute(self.scope.sql(_LIFE).encode(), self.scope.one(session.id)).fetchone()
                if live != (life,):  # else we created it, and only the answer was lost
                    raise session_exists(session.id) from None

        self.connections.run(insert)
        return self.get(session.id)

    def get(self, session_id: str) -> Session:
        rows = self.connections.query(self.scope.sql(_GET), *self.scope.one(check_id(session_id)))
        if not rows:
            raise session_not_found(session_id)
        return self._session(rows[0])

    def peek(self, session_id: str) -> Session:
        return self.get(session_id)

    def sessions(self) -> Iterator[Session]:
        last = ""
        while True:
            rows = self.connections.query(self.scope.sql(_ALL), *self.scope.all(), last)
            for row in rows:
                yield self._session(row)
            if len(rows) < PAGE:
                return
            last = rows[-1][0]

    def read(self, session_id: str, start: int = 0) -> ServerReading:
        return ServerReading(self.connections, session_id, self._life(session_id), start)

    def working(self, session_id: str) -> ServerReading:
        """See capabilities.KeepsWorking."""
        query = f"SELECT life, archived_before FROM cortext.sessions WHERE {LIVE}"
        rows = self.connections.query(self.scope.sql(query), *self.scope.one(check_id(session_id)))
        if not rows:
            raise session_not_found(session_id)
        return ServerReading(self.connections, session_id, *rows[0])

    def outline(self, session_id: str) -> Iterator[Outline]:
        """See capabilities.Outlines."""
        return iter(self.read(session_id))

    def tail(self, session_id: str, count: int) -> list[Message]:
        found = tail(self.scope, check_id(session_id), count) if count > 0 else []
        if not found:
            self._life(session_id)
        return found

    def open(self, session_id: str, timeout: float | None = None) -> HeldSession:
        return HeldSession(self, session_id, timeout)

    def append(self, session_id: str, *messages: Message) -> list[Message]:
        check_id(session_id)
        if not messages:
            self._life(session_id)
            return []
        # Without a lease: the statement that writes also checks that nobody holds the session.
        claim = getattr(self._thread, "claim", None)
        batch = AppendBatch(self.connections, self.scope, session_id, messages, None, self.leases.seconds, claim)
        stored = batch.run()
        return self.leases.wait_for(session_id, batch.run) if stored is None else stored

    @contextmanager
    def under_claim(self, claim: Claim) -> Iterator[None]:
        """In the `with` block, this thread's appends raise TakenOver once the claim is lost."""
        before = getattr(self._thread, "claim", None)
        self._thread.claim = claim
        try:
            yield
        finally:
            self._thread.claim = before

    def update(self, session_id: str, change: Change) -> Session:
        return self.changes.change(check_id(session_id), change, None)

    # ── listing and search by the server: see server_capabilities ────────────────────────────────────

    def server(self) -> ServerState:
        return search.state(self.scope)

    def listed(
        self, where: Sequence[tuple[str, str]] = (), *, limit: int = 0, order: str = "last_active"
    ) -> list[Session]:
        rows = search.listed(self.scope, where, limit=limit, order=order)
        found = [self._session(row) for row in rows]
        if limit <= 0 and order == "title":
            found.sort(key=lambda session: ((session.title or session.id).casefold(), session.id))
        elif limit <= 0:
            found.sort(key=attrgetter(order, "id"), reverse=True)
        return found

    def from_tools(self) -> list[Session]:
        return [] if self.shared else self.listed([("other_tool", "")])

    def find(self, text: str, limit: int = 20, where: Sequence[tuple[str, str]] = ()) -> list[ServerHit]:
        rows = search.find(self.scope, text, limit, where)
        return [ServerHit(self._session(row), message, score) for row, message, score in search.readable(rows)]

    def has_vectors(self) -> bool:
        return self.connections.run(self.changes.has_vectors)

    def around(self, places: Sequence[tuple[str, int]]) -> dict[tuple[str, int], Message]:
        found: dict[tuple[str, int], Message] = {}
        for row in search.around(self.scope, places) if places else ():
            try:
                found[row[0], row[1]] = from_row(row[1:])
            except BadLine:
                continue  # reported by a full read of that session
        return found

    def find_similar(
        self, vector: Sequence[float], model: str, limit: int = 20, where: Sequence[tuple[str, str]] = ()
    ) -> list[ServerHit]:
        if not self.has_vectors():
            return []
        rows = search.find_similar(self.scope, vector, model, limit, where)
        return [ServerHit(self._session(row), message, score) for row, message, score in search.readable(rows)]

    def miscounted(self, since: str = "") -> Iterator[str]:
        return search.miscounted(self.scope, since)

    # ── the trash ────────────────────────────────────────────────────────────────────────────────────

    def delete(self, session_id: str) -> Trashed:
        check_id(session_id)
        deleted_at = clock.now()
        life = self._life(session_id)

        def attempt() -> int | None:
            rows = self.connections.query(self.scope.sql(_DELETE), deleted_at, *self.scope.one(session_id))
            if rows:
                return int(rows[0][0])
            # The answer to an earlier attempt may be lost: check whether that attempt deleted it.
            deleted = "SELECT life FROM cortext.sessions WHERE session_id = %s AND life = %s AND deleted_at = %s"
            rows = self.connections.query(deleted, session_id, life, deleted_at)
            return int(rows[0][0]) if rows else None

        return self._trashed(session_id, self.leases.wait_for(session_id, attempt), deleted_at)

    def trash(self) -> Iterator[Trashed]:
        return iter([self._trashed(*row) for row in self.connections.query(_TRASH, self.space, self.scope.owner)])

    def restore(self, key: str) -> Session:
        session_id, _, stamp = key.rpartition(".")
        if not is_id(session_id) or not is_id(stamp):
            raise invalid_trash_key(key)
        life = int(stamp, 16) if all(digit in "0123456789abcdef" for digit in stamp) and len(stamp) <= 16 else 0
        attempted = False

        def put_back(connection: Connection) -> bool:
            nonlocal attempted
            retried, attempted = attempted, True
            try:
                values = (session_id, life, self.space, self.scope.owner)
                if connection.execute(_RESTORE.encode(), values).fetchone():
                    return True
            except psycopg.errors.UniqueViolation:
                raise session_exists_again(session_id) from None
            live = connection.execute(self.scope.sql(_LIFE).encode(), self.scope.one(session_id)).fetchone()
            return retried and live == (life,)  # an earlier attempt restored it, and only the answer was lost

        if not self.connections.run(put_back):
            raise not_in_trash(key)
        return self.get(session_id)

    # ── maintenance of a session ─────────────────────────────────────────────────────────────────────

    def check(self, session_id: str) -> list[Damage]:
        return repair.check(self.connections, session_id, self._life(session_id))

    def repair(self, session_id: str, *, dry_run: bool = False) -> RepairReport:
        life = self._life(session_id)
        if dry_run:
            return repair.repair(self.connections, session_id, life, dry_run=True)
        with self.open(session_id) as writer:
            return repair.repair(self.connections, session_id, writer.lease.life, dry_run=False)

    def compact(self, session_id: str, before: int) -> int:
        """See capabilities.Compacts: no rows move, the messages are only marked as archived."""
        return self.changes.compact(check_id(session_id), before)

    def rewrite(self, session_id: str, transform: Transform) -> int:
        """See capabilities.Rewrites."""
        with self.open(session_id) as writer:
            return repair.rewrite(self.connections, writer.lease, transform)

    # ── records about messages ───────────────────────────────────────────────────────────────────────

    def annotate(self, session_id: str, *records: dict[str, object]) -> None:
        """See capabilities.Annotates."""
        self.changes.annotate(check_id(session_id), records)

    def annotations(self, session_id: str) -> Iterator[dict[str, object]]:
        """See capabilities.Annotates."""
        return self.changes.notes(session_id, self._life(session_id))

    def embed_summary(self, session_id: str, summary: str, embedding: dict[str, object]) -> bool:
        """See capabilities.EmbedsSummaries."""
        is_current = bool(summary) and self.get(session_id).summary == summary
        return is_current and self.changes.embed_summary(session_id, summary, embedding)

    def summary_embedding(self, session_id: str) -> dict[str, object] | None:
        """See capabilities.EmbedsSummaries."""
        return self.changes.summary_embedding(session_id, self.get(session_id).summary)

    # ── data of an assistant, beside its sessions ────────────────────────────────────────────────────

    def chats(self) -> ServerChats:
        """Return the record of which session is active in which chat."""
        return ServerChats(self.connections, self.space)

    def facts(self) -> ServerFacts:
        """Return the remembered facts."""
        return ServerFacts(self.connections, self.space)

    def updates(self, bot: int) -> ServerUpdates:
        """Return the updates that a messenger sent to this bot."""
        return ServerUpdates(self.connections, bot, self.under_claim, self.leases.seconds)

    def claims(self) -> ServerClaims:
        """Return the claims of workers on tasks."""
        return ServerClaims(self.connections)

    def shares(self) -> ServerShares:
        """Return the shares of these sessions."""
        return ServerShares(self.scope)

    def chores(self) -> ServerChores:
        """Return the background work that is due."""
        return ServerChores(self.scope)

    # ── helpers ──────────────────────────────────────────────────────────────────────────────────────

    def _session(self, row: tuple[Any, ...]) -> Session:
        return session_from(row, store=self.name, path=f"{self.root}/{row[0]}", leased=self.space == "spawn")

    def _life(self, session_id: str) -> int:
        life = life_of(self.scope, check_id(session_id))
        if life is None:
            raise session_not_found(session_id)
        return life

    def _trashed(self, session_id: str, life: int, deleted_at: str) -> Trashed:
        return Trashed(key=f"{session_id}.{life:x}", session_id=session_id, deleted_at=deleted_at, origin=self.root)


class HeldSession:
    """A context manager that holds a session's lease for the `with` block."""

    __slots__ = ("_session_id", "_store", "_timeout", "_writer")

    def __init__(self, store: PostgresStore, session_id: str, timeout: float | None) -> None:
        self._store, self._session_id, self._timeout = store, session_id, timeout

    def __enter__(self) -> ServerWriter:
        lease = self._store.leases.acquire(check_id(self._session_id), self._timeout)
        self._writer = ServerWriter(self._store, lease)
        return self._writer

    def __exit__(self, *error: object) -> None:
        self._store.leases.release(self._writer.lease)


class ServerWriter:
    """A session opened for writing: see base.Writer."""

    def __init__(self, store: PostgresStore, lease: Lease) -> None:
        self._store = store
        self.lease = lease

    def append(self, *messages: Message) -> list[Message]:
        if not messages:
            return []
        store = self._store
        session_id = self.lease.session_id
        batch = AppendBatch(store.connections, store.scope, session_id, messages, self.lease, store.leases.seconds)
        stored = batch.run()
        if stored is None:
            raise store.leases.takeover_error(self.lease)
        return stored

    def session(self) -> Session:
        return self._store.get(self.lease.session_id)

    def update(self, change: Change) -> Session:
        return self._store.changes.change(self.lease.session_id, change, self.lease)
