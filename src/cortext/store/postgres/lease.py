"""One writer at a time, on any number of hosts: a lease that runs out, and a number that a late writer cannot have.

Who opens a session gets the next fencing number. Every write says its number, in the statement that writes. A process
that was stopped, or cut off, for longer than its lease finds that the number has moved on, and cannot write.
"""

from __future__ import annotations

import os
import random
import secrets
import threading
import time
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from cortext.errors import CortextError, SessionBusy, session_not_found
from cortext.model import clock
from cortext.store.postgres.connection import Connections

Got = TypeVar("Got")

LIVE = "session_id = %s AND space = %s AND deleted_at IS NULL"
# Nobody holds it, or whoever did has been silent for too long.
FREE = "(held_until IS NULL OR held_until < now())"
# A write without a lease of its own ends one that ran out, so that its holder cannot go on as if nothing had happened.
ENDED = "fence = CASE WHEN holder IS NULL THEN fence ELSE fence + 1 END, holder = NULL, token = NULL, held_until = NULL"

_ACQUIRE = f"""
UPDATE cortext.sessions
SET fence = fence + 1, holder = %s, token = %s, held_since = %s, held_until = now() + %s * interval '1 second'
WHERE {LIVE} AND ({FREE} OR token = %s) RETURNING life, fence
"""
_RENEW = """
UPDATE cortext.sessions SET held_until = now() + %s * interval '1 second'
WHERE session_id = %s AND life = %s AND fence = %s AND deleted_at IS NULL RETURNING fence
"""
# The number moves on with this too: a renewal that was on its way must not hold the session for nobody.
_RELEASE = """
UPDATE cortext.sessions SET fence = fence + 1, holder = NULL, token = NULL, held_until = NULL
WHERE session_id = %s AND life = %s AND fence = %s RETURNING fence
"""
_HOLDER = f"SELECT holder, held_since, token FROM cortext.sessions WHERE {LIVE}"
_DEAD = (
    f"UPDATE cortext.sessions SET held_until = now() - interval '1 second' WHERE {LIVE} AND token = %s RETURNING fence"
)


class Lease(NamedTuple):
    """A session that is ours to write, as long as the fencing number is still this one."""

    session_id: str
    life: int
    fence: int


class Leases:
    """The leases of one process on one space of a server."""

    def __init__(self, connections: Connections, space: str, *, timeout: float, seconds: float) -> None:
        self._connections, self._space = connections, space
        self.timeout, self.seconds = timeout, seconds
        self._held: set[Lease] = set()
        self._heart: threading.Thread | None = None
        self._lock = threading.Lock()
        self._wake = threading.Event()

    def acquire(self, session_id: str, timeout: float | None) -> Lease:
        """The lease, when it is free; SessionBusy, SessionNotFound."""
        # Asked again after a lost answer, the server knows us by this.
        me, token = holder_name(), f"{_kernel()}/{os.getpid()}/{secrets.token_hex(8)}"

        def take() -> Lease | None:
            values = (me, token, clock.now(), self.seconds, session_id, self._space, token)
            rows = self._connections.query(_ACQUIRE, *values)
            return Lease(session_id, *rows[0]) if rows else None

        lease = self.wait_for(session_id, take, timeout)
        with self._lock:
            self._held.add(lease)
            if self._heart is None or not self._heart.is_alive():
                self._wake.clear()
                self._heart = threading.Thread(target=self._beat, name="cortext-leases", daemon=True)
                self._heart.start()
        return lease

    def release(self, lease: Lease) -> None:
        """Let go. If nobody hears it, the lease runs out by itself."""
        with self._lock:
            self._held.discard(lease)
        try:
            self._connections.query(_RELEASE, *lease)
        except CortextError:
            pass  # what was written was acknowledged: not worth failing for

    def wait_for(self, session_id: str, attempt: Callable[[], Got | None], timeout: float | None = None) -> Got:
        """What the attempt gives as soon as nobody else holds the session."""
        wait = self.timeout if timeout is None else timeout
        deadline = time.monotonic() + wait
        pause = 0.01
        while (got := attempt()) is None:
            rows = self._connections.query(_HOLDER, session_id, self._space)
            if not rows:
                raise session_not_found(session_id)
            holder, since, token = rows[0]
            if token and _is_dead(token) and self._connections.query(_DEAD, session_id, self._space, token):
                continue
            if time.monotonic() >= deadline:
                who = f"{holder or 'another process'} since {since or clock.now()}"
                raise SessionBusy(
                    f"session {session_id} is being written by {who}",
                    kept="nothing was changed",
                    hint=f"waited {wait:g} s; try again when it is done",
                )
            # Not all at the same moment: whoever asks in step with another might always come too late.
            time.sleep(min(pause * (0.5 + random.random()), max(0.0, deadline - time.monotonic())))
            pause = min(pause * 1.5, 0.1)
        return got

    def lost(self, lease: Lease) -> SessionBusy:
        """The error of a writer whose lease ran out and was taken by another, or whose session was deleted."""
        with self._lock:
            self._held.discard(lease)
        return SessionBusy(
            f"session {lease.session_id} was taken over: this process had been silent for longer than its lease "
            f"({self.seconds:g} s)",
            kept="everything that was acknowledged; nothing was written now",
            hint="open the session again, read what is new, and go on",
        )

    def close(self) -> None:
        """Stop the heart."""
        with self._lock:
            self._held.clear()
        self._wake.set()

    def _beat(self) -> None:
        """Renew what is held, three times in a lease; end when nothing was held for a while."""
        while not self._wake.wait(self.seconds / 3):
            with self._lock:
                held = list(self._held)
                if not held:
                    self._heart = None
                    return
            for lease in held:
                try:
                    self._connections.query(_RENEW, self.seconds, *lease)
                except CortextError:
                    break  # the server is away: the next beat, or the next write, will see


def holder_name() -> str:
    """Who holds a lease, for people."""
    return f"process {os.getpid()} on {os.uname().nodename}"


def _kernel() -> str:
    """Which processes we can see: the running kernel and the namespace; empty where the system does not tell."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return f"{file.read().strip()}:{os.stat('/proc/self/ns/pid').st_ino}"
    except OSError:
        return ""


def _is_dead(token: str) -> bool:
    """Whether a holder is gone for sure: it was a process that we would see. Nobody has to wait for its lease then."""
    kernel, _, process = token.rpartition("/")[0].rpartition("/")
    if not kernel or kernel != _kernel():
        return False
    try:
        os.kill(int(process), 0)
    except ProcessLookupError:
        return True
    except (PermissionError, ValueError):
        pass
    return False
