"""Kills a scenario at every single call, each time in a fork that really dies, and checks what is left.

    python -m tests.store.crash.forks LAYOUT SCENARIO FOLDER [--half] [--thorough]

A process of its own, because a fork of a test runner with threads is not safe. Prints one line of JSON:
how often it killed, at which calls, and the first failures in full.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import traceback
from collections import Counter

from tests.store.crash import invariants
from tests.store.crash.faults import WRITES, Counting, KillAt, installed
from tests.store.crash.talk import LAYOUTS, SCENARIOS, Actor, Ledger, diary_line, read_diary

SURVIVED = 0
SHOWN = 3
# Dying here leaves what dying at the next call leaves, an empty file or folder, or another note in a lock file.
SMALL = frozenset({"fsync", "pwrite", "open", "mkdir"})


def die() -> None:
    """The end, as the kernel would make it: no handler, no `finally`, no buffer flushed."""
    os.kill(os.getpid(), signal.SIGKILL)


def run_and_die(layout: str, scenario: str, root: str, diary: str, number: int, half: bool) -> bool:
    """Fork, run the scenario, die at the n-th call. Whether it survived, because there is no such call."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            descriptor = os.open(diary, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            with installed(KillAt(number, half=half, die=die)):
                SCENARIOS[scenario](Actor(layout, root, lambda event: void(os.write(descriptor, diary_line(event)))))
            status = SURVIVED
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return False
    if os.WEXITSTATUS(status) != SURVIVED:
        raise AssertionError(f"the scenario failed by itself at call {number}")
    return True


def void(_: object) -> None:
    """For a call whose answer does not matter."""


def calls_of(layout: str, scenario: str, root: str) -> list[str]:
    """The calls that the scenario makes when nothing goes wrong, in order."""
    with installed(Counting()) as counting:
        SCENARIOS[scenario](Actor(layout, root, void))
    names: list[str] = counting.names
    return names


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("layout", choices=LAYOUTS)
    parser.add_argument("scenario", choices=SCENARIOS)
    parser.add_argument("folder")
    parser.add_argument("--half", action="store_true", help="die in the middle of a write, not before it")
    parser.add_argument("--thorough", action="store_true", help="the whole check after every kill")
    options = parser.parse_args()
    layout, scenario, folder = options.layout, options.scenario, options.folder
    names = calls_of(layout, scenario, os.path.join(folder, "once"))
    kills: Counter[str] = Counter()
    failures = []
    number = 0
    survived = False
    while not survived:
        number += 1
        if options.half and number <= len(names) and names[number - 1] not in WRITES:
            continue
        root, diary = os.path.join(folder, f"{number}"), os.path.join(folder, f"{number}.diary")
        survived = run_and_die(layout, scenario, root, diary, number, options.half)
        try:
            with installed(Counting()):
                ledger = Ledger(read_diary(invariants.contents(diary)))
                if number <= len(names) and names[number - 1] in SMALL and not options.thorough:
                    invariants.check_lightly(layout, root, ledger)
                else:
                    invariants.check(layout, root, ledger, invariants.FIRST[number % len(invariants.FIRST)])
        except Exception:
            failures.append(f"{layout} {scenario} killed at call {number}: {traceback.format_exc()}")
            if len(failures) < SHOWN:
                continue
            break
        kills[names[number - 1] if not survived else "none"] += 1
        shutil.rmtree(root, ignore_errors=True)
        os.unlink(diary)
    print(json.dumps({"kills": kills.total(), "calls": len(names), "at": kills, "failures": failures}))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
