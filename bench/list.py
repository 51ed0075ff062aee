"""The lists as cold processes, compared with a bare `python -c pass`: with the index, and after deleting it.

python -m bench.list [--few 100] [--many 10000] [--rounds 15]
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from unittest import mock

from bench.common import arguments, in_turns, print_table, spread, work_folder
from bench.faces import BARE, cold, home_environment, installed, session
from cortext.model.message import Message
from cortext.store.files.workspace import WorkspaceStore

TARGETS = (4, 8)


def main() -> None:
    options = arguments(__doc__ or "", few=100, many=10_000, rounds=15)
    python, script = installed()
    rows: list[tuple[str, ...]] = []
    with work_folder() as base:
        for count, target in zip((options.few, options.many), TARGETS, strict=True):
            folder, home = os.path.join(base, f"folder-{count}"), os.path.join(base, f"home-{count}")
            os.mkdir(home)
            fill(folder, count)
            contenders = {
                BARE: cold([python, "-c", "pass"], folder, home),
                "cortext list": cold([script, "list"], folder, home),
                "cortext resume --list": cold([script, "resume", "--list"], folder, home),
            }
            for contend in contenders.values():
                contend(0)
                contend(0)
            seconds = in_turns(contenders, options.rounds)
            for name, needed in seconds.items():
                ratio = spread([ours / bare for ours, bare in zip(needed, seconds[BARE], strict=True)])
                whole = spread([value * 1000 for value in needed]).show("{:.0f}")
                rows.append((f"{count:,}: {name}", whole, ratio.show(), "" if name == BARE else f"≤ {target}"))
            rows.append((f"{count:,}: index deleted, rebuilt", *rebuilt(script, folder, home, count), ""))
    print(f"\nWhole processes, {options.rounds} interleaved rounds: median (middle half; all rounds).\n")
    print_table(("conversations: command", "ms", "times the bare start", "target"), rows)


def fill(folder: str, count: int) -> None:
    """Create a workspace with `count` conversations of two messages each, over many days."""
    os.makedirs(os.path.join(folder, ".workspace"))
    store = WorkspaceStore(folder)
    # Used for this run only, so it need not survive a power cut.
    with mock.patch("cortext.io.durable.Calls.fsync", staticmethod(lambda _: None)):
        _fill(store, count)


def _fill(store: WorkspaceStore, count: int) -> None:
    for number in range(count):
        day = f"20{24 + number // 336 % 3}-{1 + number // 28 % 12:02}-{1 + number % 28:02}T10:00:00Z"
        made = session(number)
        made.created_at = made.last_active = day
        store.create(made)
        said = (("user", f"What about topic {number}?"), ("assistant", "Three tries, then a clear error."))
        store.append(made.id, *(Message(role=role, content=text, timestamp=day) for role, text in said))


def rebuilt(script: str, folder: str, home: str, count: int) -> tuple[str, str]:
    """Delete the index, list again and compare; return the milliseconds and the result."""
    before = _listed(script, folder, home)
    shutil.rmtree(os.path.join(home, ".cache"))
    begin = time.perf_counter()
    after = _listed(script, folder, home)
    seconds = time.perf_counter() - begin
    same = before == after and len(after) == count
    return f"{seconds * 1000:.0f}", "same list" if same else "DIFFERENT LIST"


def _listed(script: str, folder: str, home: str) -> list[dict[str, object]]:
    command = [script, "list", "--json"]
    done = subprocess.run(command, cwd=folder, env=home_environment(home), capture_output=True, check=True)
    rows: list[dict[str, object]] = json.loads(done.stdout)
    return rows


if __name__ == "__main__":
    main()
