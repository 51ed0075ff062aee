"""Locks: one writer at a time, and who it is. Every system call goes through `durable.calls`."""

from __future__ import annotations

import fcntl
import os
import time
from types import TracebackType
from typing import Self

from cortext.errors import SessionBusy
from cortext.io import durable
from cortext.model import clock


class Holder:
    """The holder of a lock, as the lock file names it."""

    def __init__(self, pid: int, host: str, since: str, start: str) -> None:
        self.pid, self.host, self.since, self.start = pid, host, since, start

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} since {self.since}"

    def alive(self) -> bool:
        """Whether that process still runs. For another host this cannot be known and is assumed."""
        if self.host != _host():
            return True
        try:
            os.kill(self.pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass  # it runs, as another user
        started = _start_of(self.pid)
        return not (started and self.start) or started == self.start


def _host() -> str:
    return os.uname().nodename


def _start_of(pid: int) -> str:
    """Return when a process started, in kernel ticks: this tells a reused pid from the original process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        # A zombie no longer holds anything; in a container it may never be reaped.
        return "ended" if fields[0] in (b"Z", b"X") else fields[19].decode("ascii")
    except (OSError, IndexError):
        return ""  # no /proc here (macOS): the pid alone has to do


_own: tuple[int, bytes] = (0, b"")


def _own_record() -> bytes:
    """Return the part of the holder's record that stays the same for the life of this process."""
    global _own
    pid = os.getpid()
    if _own[0] != pid:  # first use, or we are a fork
        _own = (pid, f"held {pid} {_start_of(pid) or '-'} {_host()} ".encode())
    return _own[1]


def read_holder(path: str) -> Holder | None:
    """Return the live holder of this lock, or None. Never blocks and never takes the lock."""
    holder = _last_holder(path)
    return holder if holder is not None and holder.alive() else None


def holder_died(path: str) -> bool:
    """Whether the last holder of this lock died without releasing it."""
    holder = _last_holder(path)
    return holder is not None and not holder.alive()


def _last_holder(path: str) -> Holder | None:
    """Return who holds this lock, or died holding it; None if it was released."""
    try:
        descriptor = durable.open_file(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        words = os.pread(descriptor, 512, 0).decode("utf-8", "replace").split()
    finally:
        os.close(descriptor)
    if len(words) < 5 or words[0] != "held" or not words[1].isdigit():
        return None
    return Holder(int(words[1]), words[3], words[4], "" if words[2] == "-" else words[2])


class Lock:
    """Allows one writer at a time, by `flock` on a small file that stays. The kernel releases it when we die.

    The file names the holder, for error messages and for the status "interrupted". On a network file system flock may
    not work across hosts: `doctor` warns about that.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._descriptor = -1

    def acquire(self, timeout: float, what: str, *, make: bool = True) -> bool:
        """Take the lock, waiting up to `timeout` seconds for a live holder; then raise SessionBusy with its name.

        Return False if there is no lock file and `make` is false.
        """
        deadline = time.monotonic() + timeout
        pause = 0.0005
        while not self._taken(make):
            if not make and not os.path.lexists(self.path):
                return False
            left = deadline - time.monotonic()
            if left <= 0:
                holder = read_holder(self.path)
                raise SessionBusy(
                    f"{what} is being written by {holder or 'another process'}",
                    kept="nothing was changed",
                    hint=f"waited {timeout:g} s; end that process, or try again when it is done",
                )
            time.sleep(min(pause, left))
            pause = min(pause * 1.5, 0.02)
        return True

    def _taken(self, make: bool) -> bool:
        try:
            return self._try(make)
        except OSError as error:
            raise durable.write_failed(error, self.path, "nothing was changed") from error

    def _try(self, make: bool) -> bool:
        made = False
        try:
            descriptor = durable.open_file(self.path, os.O_RDWR)
        except FileNotFoundError:
            if not make:
                return False
            durable.ensure_folder(os.path.dirname(self.path))
            descriptor = durable.open_file(self.path, os.O_RDWR | os.O_CREAT)
            made = True
        try:
            if made:
                durable.calls.fchmod(descriptor, durable.FILE_MODE)
            durable.calls.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # The lock file may have been removed between our open and our flock: then this lock is worthless.
            if os.fstat(descriptor).st_nlink == 0:
                raise FileNotFoundError
            self._descriptor = descriptor
            self._note(_own_record() + clock.now().encode("ascii"))
        except BaseException as error:
            self._descriptor = -1
            durable.close_file(descriptor)
            if isinstance(error, (BlockingIOError, FileNotFoundError)):
                return False
            raise
        return True

    def _note(self, words: bytes) -> bool:
        try:
            durable.calls.pwrite(self._descriptor, words.ljust(160) + b"\n", 0)
        except OSError:
            return False  # a full disk must not prevent locking; only the holder's name is lost
        return True

    def release(self) -> None:
        """Release the lock. Safe to call twice."""
        if self._descriptor < 0:
            return
        if not self._note(b"free"):
            try:
                durable.calls.ftruncate(self._descriptor, 0)  # the file must not name us as the holder any longer
            except OSError:
                pass
        durable.close_file(self._descriptor)  # the kernel drops the flock with the last descriptor
        self._descriptor = -1

    def sweep(self) -> None:
        """Remove the lock file along with the session that it belonged to, then release the lock."""
        if self._descriptor >= 0:
            try:
                durable.calls.unlink(self.path)
            except OSError:
                pass  # a surplus lock file does no harm
        self.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
