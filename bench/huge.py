"""A transcript of 2 GB: peak memory and time of the commands, beside a transcript of a hundredth of its size.

python -m bench.huge [--megabytes 2000]

The transcript is Claude Code's: turns with a tool call whose result has about a megabyte, as logs and builds have. The
whole conversation never fits a model, so the resume writes the newest messages that do.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

from tests.support.much import MEGABYTE, taken

from bench.common import arguments, child_environment, print_table, work_folder
from cortext.model import clock

CORTEXT = os.path.join(os.path.dirname(sys.executable), "cortext")
KEY = "5a1b0c6e-0000-4000-8000-00000000b1b1"
SESSION = f"claude-{KEY}"
COMMANDS = (
    ("import",),
    ("import",),  # nothing is new
    ("list",),
    ("search", "heron", "number", "12"),
    ("search", "--exact", "heron number 12"),
    ("show", SESSION, "--tail", "5"),
    ("export", SESSION),
    ("resume", SESSION, "--ai", "claude", "--dry-run"),
    ("resume", SESSION, "--ai", "codex", "--dry-run"),
    ("resume", SESSION, "--print"),
    ("doctor",),
)


def records(megabytes: int, project: str) -> Iterator[dict[str, Any]]:
    """Yield the records of a conversation of about this size."""
    line = "2026-11-02T08:00:00 heron number {} stands in the reeds and waits, östlich\n"
    parent = None
    for turn in range(megabytes):
        output = "".join(line.format(turn * 100_000 + number) for number in range(MEGABYTE // 70))
        call = {"type": "tool_use", "id": f"call_{turn}", "name": "Bash", "input": {"command": f"make heron-{turn}"}}
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
                "sessionId": KEY,
                "cwd": project,
                "timestamp": clock.from_epoch(1_700_000_000 + turn * 60 + number),
                "version": "2.1.325",
                "message": message,
            }
            parent = uuid


def measured(megabytes: int) -> list[str]:
    """Return peak memory and time of every command with a transcript of this size."""
    found = []
    with work_folder() as folder:
        project = os.path.join(folder, "work")
        sessions = os.path.join(folder, ".claude", "projects", "-work")
        os.makedirs(project)
        os.makedirs(sessions)
        with open(os.path.join(sessions, f"{KEY}.jsonl"), "w", encoding="utf-8") as file:
            file.writelines(json.dumps(record, ensure_ascii=False) + "\n" for record in records(megabytes, project))
        environ = child_environment(HOME=folder)
        for command in COMMANDS:
            started = time.monotonic()
            done = taken((CORTEXT, *command), cwd=project, env=environ)
            seconds = time.monotonic() - started
            found.append(f"{done.peak:.0f} MB, {seconds:.1f} s" + (f" (exit {done.code})" if done.code else ""))
    return found


def main() -> None:
    options = arguments(__doc__ or "", megabytes=2_000)
    small = max(1, options.megabytes // 100)
    columns = {f"{small} MB": measured(small), f"{options.megabytes:,} MB": measured(options.megabytes)}
    rows = zip((" ".join(words) for words in COMMANDS), *columns.values(), strict=True)
    print("\nPeak memory and time\n")
    print_table(("cortext …", *columns), list(rows))


if __name__ == "__main__":
    main()
