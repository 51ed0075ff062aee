"""A conversation with very many messages or one huge line, and the memory a command needs for it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

MEGABYTE = 1 << 20
LONG_LINE = 9  # messages before the long line
# A parent with almost no memory, so that the command's peak does not start at the size of this process.
_MEASURE = """
import os, sys
out = (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)
child = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=[out])
_, status, usage = os.wait4(child, 0)
print(os.waitstatus_to_exitcode(status), usage.ru_maxrss)
"""


class Measured(NamedTuple):
    """Exit code and peak memory of a command in MB, including its child processes (git)."""

    code: int
    peak: float
    err: str


def taken(command: Sequence[str], *, cwd: str, env: Mapping[str, str]) -> Measured:
    """Run a command and measure it; its output is discarded."""
    done = subprocess.run(
        [sys.executable, "-S", "-c", _MEASURE, *command], cwd=cwd, env=env, capture_output=True, text=True, check=True
    )
    code, most = map(int, done.stdout.split())
    return Measured(code, most / (1024 if sys.platform == "linux" else MEGABYTE), done.stderr)


def write_log(log: str, *, messages: int = 20, line: int = 0, hole: int = 0) -> None:
    """Write a log; after the first messages comes one of `line` bytes, or a sparse hole of `hole` NULs."""
    with open(log, "wb") as file:
        for number in range(messages):
            if number == LONG_LINE and line:
                file.write(_begin("user"))
                file.writelines(b"many words, " * (MEGABYTE // 12) for _ in range(line // MEGABYTE))
                file.write(_end(number))
            elif number == LONG_LINE and hole:
                file.seek(hole, os.SEEK_CUR)
                file.write(b"\n")
            else:
                file.write(_begin("assistant" if number % 2 else "user"))
                file.write(b"message %d about herons at dawn. " % number + b"They stand in the reeds and wait. " * 8)
                file.write(_end(number))


def _begin(role: str) -> bytes:
    return b'{"role": "%s", "content": "' % role.encode()


def _end(number: int) -> bytes:
    moment = b"2026-01-01T%02d:%02d:%02d.000Z" % (number // 3600 % 24, number // 60 % 60, number % 60)
    return b'", "timestamp": "%s", "id": "m-%d", "seq": %d}\n' % (moment, number, number)
