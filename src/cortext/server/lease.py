"""Exclusive use across hosts: leases (one writer per session at a time), and claims on work that one worker does.

Both expire and carry a fencing number. Opening a session, or claiming work, increments it, and every statement that
writes under it checks it. A process that was suspended or disconnected for longer than that therefore cannot write
once another process has. A session records how far each chore (embeddings, summaries) has come (`…_before`); an append
marks it as due, `settled` clears that.
"""

from __future__ import annotations

import os
import random
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeVar

from cortext.errors import CortextError, SessionBusy, TakenOver, session_not_found
from cortext.model import clock
from cortext.server.connection import Connections
from cortext.server.driver import Connection
from cortext.server.scope import HELD, LISTED, LIVE, WRITABLE, Own
from cortext.store.server_capabilities import Claim

Result = TypeVar("Result")

# No lease, or an expired one.
FREE = "(held_until IS NULL OR held_until < now())"
# A write without a lease ends an expired one, so that its former holder can no longer write.
END_STALE_LEASE = (
    "fence = CASE WHEN holder IS NULL THEN fence ELSE fence + 1 END, holder = NULL, token = NULL, held_until = NULL"
)

# Repeated after a lost answer, it changes nothing: the first attempt may be executed after the second.
_ACQUIRE = f"""
UPDATE cortext.sessions
SET fence = CASE WHEN token = %s THEN fence ELSE fence + 1 END, holder = %s, token = %s, held_since = %s,
    held_until = now() + %s * interval '1 second'
WHERE {WRITABLE} AND ({FREE} OR token = %s) RETURNING life, fence
"""
_RENEW = f"UPDATE cortext.sessions SET held_until = now() + %s * interval '1 second' WHERE {HELD} RETURNING fence"
# The fencing number increases here too, so that a renewal in flight cannot bring the released lease back.
_RELEASE = """
UPDATE cortext.sessions SET fence = fence + 1, holder = NULL, token = NULL, held_until = NULL
WHERE session_id = %s AND life = %s AND fence = %s RETURNING fence
"""
_HOLDER = f"SELECT holder, held_since, token FROM cortext.sessions WHERE {LIVE}"
_EXPIRE = (
    f"UPDATE cortext.sessions SET held_until = now() - interval '1 second' WHERE {LIVE} AND token = %s RETURNING fence"
)


class Lease(NamedTuple):
    """The right to write a session; valid as long as the stored fencing number still equals `fence`."""

    session_id: str
    life: int
    fence: int


class Leases:
    """The leases of one process on one space of a server."""

    def __init__(self, connections: Connections, scope: Own, *, timeout: float, seconds: float) -> None:
        self._connections, self._scope = connections, scope
        self.timeout, self.seconds = timeout, seconds
        self._held: set[Lease] = set()
        self._renewer: threading.Thread | None = None
        self._lock = threading.Lock()
        self._wake = threading.Event()

    def acquire(self, session_id: str, timeout: float | None) -> Lease:
        """Wait until the session is free and return a lease on it; SessionBusy, SessionNotFound."""
        # The token identifies us if the query is retried after a lost answer.
        holder, token = f"{holder_name()}{self._scope.whose}", f"{_namespace()}/{os.getpid()}/{secrets.token_hex(8)}"

        def attempt() -> Lease | None:
            values = (token, holder, token, clock.now(), self.seconds, *self._scope.writable(session_id), token)
            rows = self._connections.query(self._scope.sql(_ACQUIRE), *values)
            return Lease(session_id, *rows[0]) if rows else None

        lease = self.wait_for(session_id, attempt, timeout)
        with self._lock:
            self._held.add(lease)
            if self._renewer is None or not self._renewer.is_alive():
                self._wake.clear()
                self._renewer = threading.Thread(target=self._renew_held, name="cortext-leases", daemon=True)
                self._renewer.start()
        return lease

    def release(self, lease: Lease) -> None:
        """Release the lease. If the server cannot be reached, the lease expires by itself."""
        with self._lock:
            self._held.discard(lease)
        try:
            self._connections.query(_RELEASE, *lease)
        except CortextError:
            pass  # all writes were acknowledged, and the lease expires by itself

    def wait_for(self, session_id: str, attempt: Callable[[], Result | None], timeout: float | None = None) -> Result:
        """Call `attempt` until it returns a result, which it does once nobody else holds the session; SessionBusy."""
        wait = self.timeout if timeout is None else timeout
        deadline = time.monotonic() + wait
        pause = 0.01
        while (result := attempt()) is None:
            rows = self._connections.query(self._scope.sql(_HOLDER), *self._scope.one(session_id))
            if not rows:
                raise session_not_found(session_id)
            self._scope.check_write(session_id)
            holder, since, token = rows[0]
            if token and _is_dead(token):
                expire = self._scope.sql(_EXPIRE)
                if self._connections.query(expire, *self._scope.one(session_id), token):
                    continue
            if time.monotonic() >= deadline:
                who = f"{holder or 'another process'} since {since or clock.now()}"
                raise SessionBusy(
                    f"session {session_id} is being written by {who}",
                    kept="nothing was changed",
                    hint=f"waited {wait:g} s; try again later",
                )
            # Jitter: a process that polls in step with another might always come too late.
            time.sleep(min(pause * (0.5 + random.random()), max(0.0, deadline - time.monotonic())))
            pause = min(pause * 1.5, 0.1)
        return result

    def takeover_error(self, lease: Lease) -> SessionBusy:
        """Return the error for a writer whose lease was taken over after it expired, or whose session was deleted.

        NotShared if the session is somebody else's who no longer shares it for writing.
        """
        with self._lock:
            self._held.discard(lease)
        self._scope.check_write(lease.session_id)
        return SessionBusy(
            f"session {lease.session_id} was taken over: this process did not renew its lease in time "
            f"({self.seconds:g} s)",
            kept="everything acknowledged before this write",
            hint="reopen the session, read the new messages, and try again",
        )

    def close(self) -> None:
        """Stop renewing leases."""
        with self._lock:
            self._held.clear()
        self._wake.set()

    def _renew_held(self) -> None:
        """Renew the held leases three times per lease duration; end when none is held."""
        while not self._wake.wait(self.seconds / 3):
            with self._lock:
                held = list(self._held)
                if not held:
                    self._renewer = None
                    return
            for lease in held:
                try:
                    self._connections.query(self._scope.sql(_RENEW), self.seconds, *self._scope.held(lease))
                except CortextError:
                    break  # the server is unreachable: the next renewal or the next write will tell


def holder_name() -> str:
    """Return how messages name this process as the holder of a lease."""
    return f"process {os.getpid()} on {os.uname().nodename}"


def _namespace() -> str:
    """Return an id of the process namespace we are in: boot id and pid namespace; empty if the system has none."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return f"{file.read().strip()}:{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return ""


def _is_dead(token: str) -> bool:
    """Whether a lease's holder is certainly dead: it was a process in our namespace, and is not there any more."""
    namespace, _, process = token.rpartition("/")[0].rpartition("/")
    if not namespace or namespace != _namespace():
        return False
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return True
    except (PermissionError, ValueError):
        pass
    return False


# Two statements, because distributed engines refuse the server's clock inside ON CONFLICT DO UPDATE. Repeated after a
# lost answer, the number stays: the first attempt may be executed after the second.
_TAKE = """
UPDATE cortext.claims SET fence = CASE WHEN token = %(token)s THEN fence ELSE fence + 1 END, token = %(token)s,
    held_until = now() + %(seconds)s * interval '1 second'
WHERE key = %(key)s AND topic = %(topic)s AND owner = %(owner)s
    AND (held_until IS NULL OR held_until < now() OR token = %(token)s) AND (%(version)s = 0 OR version < %(version)s)
RETURNING fence
"""
_CREATE = """
INSERT INTO cortext.claims (key, topic, owner, fence, token, held_until)
VALUES (%(key)s, %(topic)s, %(owner)s, 1, %(token)s, now() + %(seconds)s * interval '1 second')
ON CONFLICT DO NOTHING RETURNING fence
"""
_FINISHED = "SELECT key, version FROM cortext.claims WHERE key = ANY(%s) AND topic = %s AND owner = %s"
_RENEW_CLAIM = """
UPDATE cortext.claims SET held_until = now() + %s * interval '1 second'
WHERE key = %s AND topic = %s AND fence = %s AND owner = %s RETURNING fence
"""
_FINISH = """
UPDATE cortext.claims SET held_until = NULL, version = greatest(version, %s)
WHERE key = %s AND topic = %s AND fence = %s AND owner = %s RETURNING fence
"""


class ServerClaims:
    """See claims.Claims."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def claim(self, topic: str, key: str, seconds: float, *, version: int = 0) -> Claim | None:
        token = secrets.token_hex(8)  # identifies us if the query is retried after a lost answer
        values = {"key": key, "topic": topic, "token": token, "seconds": seconds, "version": version}
        values["owner"] = self._connections.owner

        def attempt(connection: Connection) -> Claim | None:
            for statement in (_TAKE, _CREATE):
                row = connection.execute(statement.encode(), values).fetchone()
                if row is not None:
                    return Claim(key, topic, row[0])
            return None

        return self._connections.run(attempt)

    def finished(self, topic: str, keys: Sequence[str]) -> dict[str, int]:
        rows = self._connections.query(_FINISHED, list(keys), topic, self._connections.owner)
        return {str(key): int(version) for key, version in rows}

    def renew(self, claim: Claim, seconds: float) -> bool:
        return bool(self._connections.query(_RENEW_CLAIM, seconds, *claim, self._connections.owner))

    def finish(self, claim: Claim, *, version: int = 0) -> bool:
        return bool(self._connections.query(_FINISH, version, *claim, self._connections.owner))


def lock_claim(connection: Connection, owner: str, claim: Claim) -> None:
    """Lock the claim's row until the transaction ends; TakenOver if another worker has the claim."""
    query = b"SELECT fence FROM cortext.claims WHERE key = %s AND topic = %s AND fence = %s AND owner = %s FOR UPDATE"
    if connection.execute(query, (*claim, owner)).fetchone() is None:
        raise TakenOver(
            f"{claim.key} was taken over by another process: this process did not renew its claim in time",
            kept="everything acknowledged before this write",
            hint="nothing to do: the other process continues with it",
        )


# The columns of each chore: whether it is due, and up to which message it is done.
COLUMNS = {"embed": ("due_embed", "embedded_before"), "summarise": ("due_summarise", "summarised_before")}
# What else makes a chore due, apart from new messages.
_ALSO_DUE = {"embed": " OR (summary <> '' AND summary_vector IS NULL)", "summarise": ""}
AT_ONCE = 500


class ServerChores:
    """The chores of the sessions in one space of a server."""

    def __init__(self, scope: Own) -> None:
        self._scope = scope

    def due(self, chore: str) -> list[tuple[str, int, str]]:
        """Return (session id, next message number, last activity) of due sessions, oldest first, at most `AT_ONCE`."""
        query = f"""
        SELECT session_id, next_seq, last_active FROM cortext.sessions
        WHERE {LISTED} AND {COLUMNS[chore][0]} AND message_count > 0
        ORDER BY last_hour, last_active LIMIT {AT_ONCE}
        """
        rows = self._scope.connections.query(self._scope.sql(query), *self._scope.all())
        return [(row[0], row[1], row[2]) for row in rows]

    def settled(self, chore: str, session_id: str, end: int) -> None:
        """Record that a chore is done for the messages below `end`; messages appended since remain due."""
        due, done = COLUMNS[chore]
        query = f"""
        UPDATE cortext.sessions SET {done} = %s, {due} = next_seq > %s{_ALSO_DUE[chore]}
        WHERE {LIVE} AND {done} <= %s RETURNING life
        """
        self._scope.connections.query(self._scope.sql(query), end, end, *self._scope.one(session_id), end)
