"""A conversation with very many messages, huge results or one huge line, and the memory a command needs for it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from cortext.model import clock

MEGABYTE = 1 << 20
LONG_LINE = 9  # messages before the long line
HUGE_KEY = "5a1b0c6e-0000-4000-8000-00000000b1b1"
HUGE_ID = f"claude-{HUGE_KEY}"
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


def write_huge_transcript(home: str, project: str, megabytes: int) -> str:
    """Write a transcript of Claude Code of about this size, as if it had been held there; return its path."""
    folder = os.path.join(home, ".claude", "projects", re.sub(r"[^A-Za-z0-9]", "-", project))
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, f"{HUGE_KEY}.jsonl")
    with open(path, "w", encoding="utf-8") as file:
        file.writelines(json.dumps(record, ensure_ascii=False) + "\n" for record in _records(megabytes, project))
    return path


def _records(megabytes: int, project: str) -> Iterator[dict[str, Any]]:
    """Yield turns with a tool call of about a megabyte: files that are written, then the output of commands."""
    line = "2026-11-02T08:00:00 heron number {} stands in the reeds and waits, östlich\n"
    parent = None
    for turn in range(megabytes):
        long = "".join(line.format(turn * 100_000 + number) for number in range(MEGABYTE // 80))
        if turn < megabytes // 10:
            name, fields, output = "Write", {"file_path": f"{project}/heron-{turn}.txt", "content": long}, "Written."
        else:
            name, fields, output = "Bash", {"command": f"make heron-{turn}"}, long
        call = {"type": "tool_use", "id": f"call_{turn}", "name": name, "input": fields}
        result = {"type": "tool_result", "tool_use_id": f"call_{turn}", "content": output}
        messages: tuple[dict[str, Any], ...] = (
            {"role": "user", "content": f"Please build heron number {turn}."},
            {"role": "assistant", "model": "m", "content": [{"type": "text", "text": "Building."}, call]},
            {"role": "user", "content": [result]},
            {"role": "assistant", "model": "m", "content": [{"type": "text", "text": f"Heron {turn} is built."}]},
        )
        for number, message in enumerate(messages):
            uuid = f"00000000-0000-4000-8000-{turn * 10 + number:012}"
            yield {
                "type": message["role"],
                "uuid": uuid,
                "parentUuid": parent,
                "sessionId": HUGE_KEY,
                "cwd": project,
                "timestamp": clock.from_epoch(1_790_000_000 + turn * 60 + number),
                "version": "2.1.325",
                "message": message,
            }
            parent = uuid
