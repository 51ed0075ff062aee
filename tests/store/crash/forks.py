"""Kills a scenario at every single call, each time in a fork that really dies, and checks the result.

    python -m tests.store.crash.forks LAYOUT SCENARIO FOLDER [--half] [--thorough]

This is a separate process, because forking a test runner with threads is not safe. It prints one line of JSON:
how many kills there were, at which calls, and the first failures in full.
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
from tests.store.crash.actor import LAYOUTS, SCENARIOS, Actor, Ledger, event_line, read_events
from tests.store.crash.faults import WRITES, Counting, KillAt, installed

SURVIVED = 0
SHOWN = 3
# Dying at these calls leaves nearly the same state as dying at the next call, so a light check is enough.
LIGHTLY_CHECKED = frozenset({"fsync", "pwrite", "open", "mkdir"})


def die() -> None:
    """Kill this process: no handler, no `finally`, no buffer flushed."""
    os.kill(os.getpid(), signal.SIGKILL)


def run_and_die(layout: str, scenario: str, root: str, events_path: str, number: int, half: bool) -> bool:
    """Fork, run the scenario, die at the n-th call; return whether it survived because there is no such call."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            descriptor = os.open(events_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            with installed(KillAt(number, half=half, die=die)):
                SCENARIOS[scenario](Actor(layout, root, lambda event: discard(os.write(descriptor, event_line(event)))))
            status = SURVIVED
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return False
    if os.WEXITSTATUS(status) != SURVIVED:
        raise AssertionError(f"the scenario failed without a kill (at call {number})")
    return True


def discard(_: object) -> None:
    """Discard a value."""


def calls_of(layout: str, scenario: str, root: str) -> list[str]:
    """Return the calls that the scenario makes without a fault, in order."""
    with installed(Counting()) as counting:
        SCENARIOS[scenario](Actor(layout, root, discard))
    names: list[str] = counting.names
    return names


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("layout", choices=LAYOUTS)
    parser.add_argument("scenario", choices=SCENARIOS)
    parser.add_argument("folder")
    parser.add_argument("--half", action="store_true", help="die in the middle of a write, not before it")
    parser.add_argument("--thorough", action="store_true", help="run the full check after every kill")
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
        root, events_path = os.path.join(folder, f"{number}"), os.path.join(folder, f"{number}.events")
        survived = run_and_die(layout, scenario, root, events_path, number, options.half)
        try:
            with installed(Counting()):
                ledger = Ledger(read_events(invariants.contents(events_path)))
                if number <= len(names) and names[number - 1] in LIGHTLY_CHECKED and not options.thorough:
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
        os.unlink(events_path)
    print(json.dumps({"kills": kills.total(), "calls": len(names), "at": kills, "failures": failures}))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
