"""Stand-ins for `fsio.calls`: they count, stop, fail or cut short any single call to the kernel."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from threading import RLock
from typing import Any

from cortext.io import files as fsio

KERNEL = fsio.Calls()
# What these change on disk, if anything, is not what a session says.
HARMLESS = frozenset({"close", "flock", "chmod", "fchmod"})
WRITES = frozenset({"write", "pwrite"})
NOBODY = 2**22 + 1  # above what Linux gives out as a pid


class Dead(BaseException):
    """The process is no more. Not an Exception: nothing may catch it and go on."""


class Counting:
    """The real calls, counted. `sync=False` leaves the flush out: a kill does not touch the page cache."""

    def __init__(self, *, sync: bool = False) -> None:
        self.sync = sync
        self.names: list[str] = []
        self._one_at_a_time = RLock()  # some calls come from threads that flush

    @property
    def count(self) -> int:
        return len(self.names)

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_") or not hasattr(KERNEL, name):
            raise AttributeError(name)
        return partial(self._alone, name)

    def _alone(self, name: str, *args: Any) -> Any:
        with self._one_at_a_time:
            return self.call(name, *args)

    def call(self, name: str, *args: Any) -> Any:
        """One call of fsio. What counts is asked `act`."""
        if not self.counts(name, args):
            return self.real(name, *args)
        self.names.append(name)
        return self.act(self.count, name, args)

    def counts(self, name: str, args: tuple[Any, ...]) -> bool:
        """Whether this call can change what is on disk."""
        return name not in HARMLESS and not (name == "open" and not args[1] & os.O_CREAT)

    def act(self, number: int, name: str, args: tuple[Any, ...]) -> Any:
        """Do the call; subclasses do something else at some numbers."""
        return self.real(name, *args)

    def real(self, name: str, *args: Any) -> Any:
        """The kernel's own call."""
        if name == "fsync" and not self.sync:
            return None
        return getattr(KERNEL, name)(*args)


def half_of(name: str, args: tuple[Any, ...]) -> None:
    """Do the first half of a write."""
    data = memoryview(args[1])
    getattr(KERNEL, name)(args[0], data[: len(data) // 2], *args[2:])


def bury(locks: set[int]) -> None:
    """What the kernel does for the dead: it takes their locks away.

    A lock's file says who held it. Here that is the living test, so it gets the number of nobody.
    """
    for descriptor in locks:
        KERNEL.pwrite(descriptor, disown(os.pread(descriptor, 512, 0)), 0)
        KERNEL.flock(descriptor, fcntl.LOCK_UN)
    locks.clear()


def disown(note: bytes) -> bytes:
    """The note of a lock that this process held, as if another, dead one had held it."""
    own = b"held %d " % os.getpid()
    return note.replace(own, b"held %d" % NOBODY + b" " * max(1, len(own) - 5 - len(b"%d" % NOBODY)), 1)


class KillAt(Counting):
    """Dies before the n-th call, or in the middle of it where it is a write (`half`).

    `die` really ends the process (in a fork). Without it Dead is raised; after that no call reaches the
    disk any more, so whatever a `finally` does on the way out, the disk is as the kill left it.
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
        bury(self._locks)
        raise Dead


class FailAt(Counting):
    """The n-th call fails with an error of the kernel; every call counts here, reads and closes too.

    `partly` writes half first (a disk that fills up), `then` are calls that fail from there on, each time
    (a rollback that fails as well). `changing`: a call that only reads is let through, and the next one fails; for
    threads, whose n-th call is not always the same.
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
        """Of every call so far, whether it could not have changed a session: an open to read, a close, a flock."""
        return self._harmless

    def act(self, number: int, name: str, args: tuple[Any, ...]) -> Any:
        reading = name == "open" and not args[1] & (os.O_WRONLY | os.O_RDWR | os.O_DIRECTORY)
        harmless = reading or name in HARMLESS
        self._harmless.append(harmless)
        if isinstance(args[0], int):
            self.order.append((name, args[0]))
        its_turn = number == self.number
        if self.changing:
            its_turn = 0 < self.number <= number and not self.failed and not harmless
        if its_turn or (number > self.number and name in self.then):
            if self.partly and name in WRITES:
                half_of(name, args)
            if name == "close":
                self.real(name, *args)  # the kernel frees the number whatever it answers
            self.failed.append(name)
            raise OSError(self.code, os.strerror(self.code))
        return self.real(name, *args)


class ShortWrites(Counting):
    """From the n-th call on, every write takes one byte less than half of what it is given."""

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
    """Everything that fsio does goes through `calls` for the length of the `with`."""
    before = fsio.calls
    fsio.calls = calls
    try:
        yield calls
    finally:
        fsio.calls = before
