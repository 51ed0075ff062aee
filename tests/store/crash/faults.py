"""Replacements for `durable.calls` that count system calls, or kill, fail or shorten a single one."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from threading import RLock
from typing import Any

from cortext.io import durable

KERNEL = durable.Calls()
# These calls do not change the content of a session.
HARMLESS = frozenset({"close", "flock", "chmod", "fchmod"})
WRITES = frozenset({"write", "pwrite"})
NOBODY = 2**22 + 1  # above the largest process id of Linux


class Dead(BaseException):
    """The simulated death of the process. Not an Exception, so that nothing catches it and continues."""


class Counting:
    """Executes and counts the real calls. `sync=False` skips flushes: a kill does not affect the page cache."""

    def __init__(self, *, sync: bool = False) -> None:
        self.sync = sync
        self.names: list[str] = []
        self._lock = RLock()  # flushes may come from other threads

    @property
    def count(self) -> int:
        return len(self.names)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_") or not hasattr(KERNEL, name):
            raise AttributeError(name)
        return partial(self._locked_call, name)

    def _locked_call(self, name: str, *args: Any) -> Any:
        with self._lock:
            return self.call(name, *args)

    def call(self, name: str, *args: Any) -> Any:
        """Execute one call of durable; one that counts goes through `act`."""
        if not self.counts(name, args):
            return self.real(name, *args)
        self.names.append(name)
        return self.act(self.count, name, args)

    def counts(self, name: str, args: tuple[Any, ...]) -> bool:
        """Whether this call can change what is on disk."""
        return name not in HARMLESS and not (name == "open" and not args[1] & os.O_CREAT)

    def act(self, number: int, name: str, args: tuple[Any, ...]) -> Any:
        """Execute the n-th call; subclasses inject faults here."""
        return self.real(name, *args)

    def real(self, name: str, *args: Any) -> Any:
        """Execute the real system call."""
        if name == "fsync" and not self.sync:
            return None
        return getattr(KERNEL, name)(*args)


def half_of(name: str, args: tuple[Any, ...]) -> None:
    """Execute the first half of a write."""
    data = memoryview(args[1])
    getattr(KERNEL, name)(args[0], data[: len(data) // 2], *args[2:])


def release_locks_of_dead(locks: set[int]) -> None:
    """Release the locks of a process that died, as the kernel would.

    The lock files name the test process, which is alive, as their holder; they get the id of no process instead.
    """
    for descriptor in locks:
        KERNEL.pwrite(descriptor, disown(os.pread(descriptor, 512, 0)), 0)
        KERNEL.flock(descriptor, fcntl.LOCK_UN)
    locks.clear()


def disown(note: bytes) -> bytes:
    """Return the content of a lock file with this process replaced by a dead one as the holder."""
    own = b"held %d " % os.getpid()
    return note.replace(own, b"held %d" % NOBODY + b" " * max(1, len(own) - 5 - len(b"%d" % NOBODY)), 1)


class KillAt(Counting):
    """Dies before the n-th call, or in the middle of it if it is a write (`half`).

    `die` really ends the process (in a fork). Without it Dead is raised, and from then on no call reaches the
    disk, so that no `finally` block can change what the kill left.
    """

    def __init__(self, number: int, *, half: bool = False, die: Callable[[], None] | None = None) -> None:
        super().__init__()
        self.number = number
        self.half = half
        self.die = die
        self.dead = False
        self._locks: set[int] = set()

    def call(self, name: str, *args: Any) -> Any:
        if self.dead and name != "close":
            raise Dead
        answer = super().call(name, *args)
        if name == "flock":
            self._locks.add(args[0])
        elif name == "close":
            self._locks.discard(args[0])
        return answer

    def act(self, number: int, name: str, args: tuple[Any, ...]) -> Any:
        if number != self.number:
            return self.real(name, *args)
        if self.half and name in WRITES:
            half_of(name, args)
        self.dead = True
        if self.die is not None:
            self.die()
        release_locks_of_dead(self._locks)
        raise Dead


class FailAt(Counting):
    """Makes the n-th call fail with an error; every call counts here, including reads and closes.

    `partly` writes half first (a disk that fills up). Calls named in `then` fail from there on (a failing
    rollback). With `changing`, the first call from the n-th on that changes something fails instead; for tests with
    threads, where the n-th call varies.
    """

    def __init__(
        self,
        number: int,
        code: int,
        *,
        partly: bool = False,
        then: frozenset[str] = frozenset(),
        changing: bool = False,
    ) -> None:
        super().__init__()
        self.number = number
        self.code = code
        self.partly = partly
        self.then = then
        self.changing = changing
        self.failed: list[str] = []
        self.order: list[tuple[str, int]] = []
        self._harmless: list[bool] = []

    def counts(self, name: str, args: tuple[Any, ...]) -> bool:
        return True

    def harmless(self) -> list[bool]:
        """Return for every call so far whether it cannot change a session: an open for reading, a close, a flock."""
        return self._harmless

    def act(self, number: int, name: str, args: tuple[Any, ...]) -> Any:
        reading = name == "open" and not args[1] & (os.O_WRONLY | os.O_RDWR | os.O_DIRECTORY)
        harmless = reading or name in HARMLESS
        self._harmless.append(harmless)
        if isinstance(args[0], int):
            self.order.append((name, args[0]))
        is_chosen = number == self.number
        if self.changing:
            is_chosen = 0 < self.number <= number and not self.failed and not harmless
        if is_chosen or (number > self.number and name in self.then):
            if self.partly and name in WRITES:
                half_of(name, args)
            if name == "close":
                self.real(name, *args)  # the kernel frees the descriptor even if close fails
            self.failed.append(name)
            raise OSError(self.code, os.strerror(self.code))
        return self.real(name, *args)


class ShortWrites(Counting):
    """From the n-th call on, every write accepts one byte less than half of its data."""

    def __init__(self, number: int, *, end: int = 0) -> None:
        super().__init__()
        self.number = number
        self.end = end

    def act(self, number: int, name: str, args: tuple[Any, ...]) -> Any:
        if name in WRITES and number >= self.number and len(args[1]) > 1:
            if self.end and number > self.number + self.end:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            data = memoryview(args[1])
            return self.real(name, args[0], data[: max(1, len(data) // 2 - 1)], *args[2:])
        return self.real(name, *args)


@contextmanager
def installed(calls: Any) -> Iterator[Any]:
    """Route every system call of durable through `calls` within the `with` block."""
    before = durable.calls
    durable.calls = calls
    try:
        yield calls
    finally:
        durable.calls = before
