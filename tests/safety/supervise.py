"""Run a function in a fork and kill the fork at its n-th system call that changes a file.

Linux hands such a call to us before executing it (seccomp user notification), whoever makes it: Python, SQLite, the
search library, a thread. So a kill lands inside a write, not in the interpreter's startup; and a write can be torn: we
write the first half on behalf of the dying process. A child program (git) is left alone: it continues when its parent
is killed, as it would in reality.

Flushes return at once without being executed: a kill does not affect what the kernel has in memory.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import platform
import select
import signal
import socket
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

_X86 = {
    "write": 1, "pwrite64": 18, "writev": 20, "pwritev": 296, "sendfile": 40, "fsync": 74, "fdatasync": 75,
    "truncate": 76, "ftruncate": 77, "rename": 82, "mkdir": 83, "rmdir": 84, "link": 86, "unlink": 87, "symlink": 88,
    "openat": 257, "mkdirat": 258, "unlinkat": 263, "renameat": 264, "linkat": 265, "symlinkat": 266, "fallocate": 285,
    "renameat2": 316, "copy_file_range": 326, "seccomp": 317,
}  # fmt: skip
_ARM = {
    "mkdirat": 34, "unlinkat": 35, "symlinkat": 36, "linkat": 37, "renameat": 38, "truncate": 45, "ftruncate": 46,
    "fallocate": 47, "openat": 56, "write": 64, "writev": 66, "pwrite64": 68, "pwritev": 70, "sendfile": 71,
    "fsync": 82, "fdatasync": 83, "renameat2": 276, "copy_file_range": 285, "seccomp": 277,
}  # fmt: skip
NUMBERS = {"x86_64": _X86, "aarch64": _ARM}.get(platform.machine(), {}) if sys.platform == "linux" else {}
NAMES = {number: name for name, number in NUMBERS.items()}
FLUSHES = frozenset({"fsync", "fdatasync"})
WITH_BYTES = frozenset({"write", "pwrite64"})
ON_DESCRIPTOR = WITH_BYTES | {"writev", "pwritev", "sendfile", "ftruncate", "fallocate", "copy_file_range"}
DEADLINE = 120.0  # seconds until a command counts as hanging

_ALLOW, _NOTIFY = 0x7FFF0000, 0x7FC00000
_RECEIVE, _SEND = 0xC0502100, 0xC0182101
_PIDFD_GETFD = 438
_SUBREAPER, _NO_NEW_PRIVILEGES = 36, 38
_LIBC = ctypes.CDLL(None, use_errno=True)


class Ended(NamedTuple):
    """The result: exit status (-9 if it was killed), the calls that counted, and whether a write was torn."""

    status: int
    calls: list[str]
    killed_at: str = ""
    torn: bool = False


def available() -> bool:
    """Whether this machine's kernel supports it."""
    if not NUMBERS:
        return False
    try:
        return run(lambda: os.close(os.open(os.devnull, os.O_WRONLY | os.O_CREAT))).status == 0
    except OSError:
        return False


def run(work: Callable[[], object], kill_at: int = 0, *, tear: bool = False) -> Ended:
    """Run `work` in a fork and kill it at its `kill_at`-th call. Return when everything that it started has ended."""
    _LIBC.prctl(_SUBREAPER, 1, 0, 0, 0)  # background processes that it leaves become our children
    ours, theirs = socket.socketpair()
    before = children()
    child = os.fork()
    if child == 0:
        status = 1
        try:
            ours.close()
            os.setsid()
            listener = _install()
            socket.send_fds(theirs, [b"."], [listener])
            os.close(listener)
            theirs.close()
            work()
            status = 0
        except SystemExit as stop:
            status = stop.code if isinstance(stop.code, int) else 1
        finally:
            os._exit(status)
    theirs.close()
    with ours:
        _, found, _, _ = socket.recv_fds(ours, 1, 1)
    if not found:
        os.waitpid(child, 0)
        raise OSError("the kernel does not hand system calls over to us")
    try:
        return _Supervisor(found[0], child, before, kill_at, tear=tear).watch()
    finally:
        os.close(found[0])


def children() -> set[int]:
    """Return our child processes."""
    with open(f"/proc/self/task/{os.getpid()}/children", encoding="ascii") as file:
        return set(map(int, file.read().split()))


def _install() -> int:
    """Intercept the calls of this process and everything it starts; return the descriptor where they arrive."""
    flags = os.O_CREAT | os.O_TRUNC
    plain = [number for name, number in NUMBERS.items() if name not in ("seccomp", "openat", "write")]
    code = [(0x20, 0, 0, 0)]  # load the call's number
    end = len(plain) + 7
    code += [(0x15, end - index - 1, 0, number) for index, number in enumerate(plain)]
    code += [
        (0x15, 0, 2, NUMBERS["openat"]), (0x20, 0, 0, 32), (0x45, 4, 3, flags),  # only if it may create or truncate
        (0x15, 0, 2, NUMBERS["write"]), (0x20, 0, 0, 16),
        (0x35, 1, 0, 3),  # only to descriptors from 3 on, not to standard output
        (0x06, 0, 0, _ALLOW), (0x06, 0, 0, _NOTIFY),
    ]  # fmt: skip
    raw = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in code))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(code), ctypes.addressof(raw)))
    if _LIBC.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
    listener = int(_LIBC.syscall(NUMBERS["seccomp"], 1, 8, program))
    if listener < 0:
        raise OSError(ctypes.get_errno(), "seccomp")
    return listener


class _Supervisor:
    """Answers the calls of one fork until no process is left that could make one."""

    def __init__(self, listener: int, child: int, before: set[int], kill_at: int, *, tear: bool) -> None:
        self._listener, self._child, self._kill_at, self._tear = listener, child, kill_at, tear
        self._before, self._status = before, 0
        self._ours: dict[int, int] = {}  # thread → its process, or 0 if it belongs to another program
        self._dead: set[int] = set()
        self.calls: list[str] = []
        self._killed_at, self._torn = "", False

    def watch(self) -> Ended:
        poll = select.poll()
        poll.register(self._listener, select.POLLIN)
        end = os.pidfd_open(self._child)
        poll.register(end, select.POLLIN)
        deadline = time.monotonic() + DEADLINE
        pause = 1000
        try:
            while True:
                ready = dict(poll.poll(pause))
                if time.monotonic() > deadline:
                    self._kill_all()
                    raise AssertionError(f"still running after {DEADLINE:.0f} s; its last calls: {self.calls[-5:]}")
                if ready.get(self._listener, 0) & select.POLLIN:
                    self._one()
                elif self._listener in ready:  # no process is left that could make a call; they are about to end
                    poll.unregister(self._listener)
                elif pause < 1000 or end in ready:
                    if pause == 1000:
                        poll.unregister(end)
                        pause = 2
                    if not self._anybody_left():
                        return Ended(self._status, self.calls, self._killed_at, self._torn)
        finally:
            os.close(end)

    def _anybody_left(self) -> bool:
        """Whether a process that the fork started still runs, also in the background; ended ones are reaped."""
        for process in children() - self._before:
            done, status = os.waitpid(process, os.WNOHANG)
            if done == self._child:
                self._status = os.waitstatus_to_exitcode(status)
        return bool(children() - self._before)

    def _one(self) -> None:
        note = bytearray(80)
        try:
            fcntl.ioctl(self._listener, _RECEIVE, note)
        except OSError:
            return  # it died meanwhile
        key, thread, _, number = struct.unpack_from("QIIi", note)
        args = struct.unpack_from("6Q", note, 32)
        name = NAMES.get(number, str(number))
        process = self._process_of(thread)
        counts = process and name not in FLUSHES and self._changes_a_file(thread, name, args)
        if counts and not self._killed_at:
            self.calls.append(name)
            if len(self.calls) == self._kill_at:
                if self._tear and name in WITH_BYTES:
                    self._torn = self._write_half(thread, process, name, args)
                self._killed_at = name
                self._kill_all()
                return
        if process in self._dead:
            return
        answer = struct.pack("QqiI", key, 0, 0, 0 if name in FLUSHES else 1)  # 1: continue the call
        try:
            fcntl.ioctl(self._listener, _SEND, bytearray(answer))
        except OSError:
            pass  # it died meanwhile

    def _process_of(self, thread: int) -> int:
        """Return the process of one of our threads; 0 for other programs (which begin as our fork) and the dead."""
        try:
            program = os.readlink(f"/proc/{thread}/exe")
        except OSError:
            return 0
        if os.path.basename(program) != os.path.basename(os.path.realpath(sys.executable)):
            return 0
        if thread not in self._ours:
            try:
                status = Path(f"/proc/{thread}/status").read_text(encoding="ascii", errors="replace")
            except OSError:
                return 0  # its process ended meanwhile
            self._ours[thread] = int(status.partition("\nTgid:")[2].split()[0])
        return self._ours[thread]

    @staticmethod
    def _changes_a_file(thread: int, name: str, args: tuple[int, ...]) -> bool:
        """Whether the call is on a file, not a pipe, a socket or a device."""
        if name not in ON_DESCRIPTOR:
            return True
        descriptor = args[2] if name == "copy_file_range" else args[0]
        try:
            target = os.readlink(f"/proc/{thread}/fd/{descriptor & 0xFFFFFFFF}")
        except OSError:
            return False
        return target.startswith("/") and (not target.startswith("/dev/") or target.startswith("/dev/shm/"))

    @staticmethod
    def _write_half(thread: int, process: int, name: str, args: tuple[int, ...]) -> bool:
        """Write the first half of the data through the writer's own open file."""
        half = args[2] // 2
        try:
            with open(f"/proc/{thread}/mem", "rb", buffering=0) as memory:
                memory.seek(args[1])
                data = memory.read(half)
            holder = os.pidfd_open(process)
            try:
                descriptor = int(_LIBC.syscall(_PIDFD_GETFD, holder, ctypes.c_int(args[0] & 0xFFFFFFFF), 0))
            finally:
                os.close(holder)
            if descriptor < 0 or not data:
                return False
            try:
                os.write(descriptor, data) if name == "write" else os.pwrite(descriptor, data, args[3])
            finally:
                os.close(descriptor)
        except OSError:
            return False
        return True

    def _kill_all(self) -> None:
        """Kill all of our own processes at once: the command and what it left in the background."""
        processes = {self._child, *(process for process in self._ours.values() if process)}
        for process in processes - self._dead:
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                pass
        self._dead |= processes
