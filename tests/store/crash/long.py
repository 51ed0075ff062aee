"""The long versions of the crash tests.

    python -m tests.store.crash.long                  # everything: 5,000 kills, 100 power cuts, every call and byte
    python -m tests.store.crash.long --kills 500      # only 500 kills
    python -m tests.store.crash.long --forks --power 20 --fail --prefixes

Prints progress on one line, and ends at the first failure with status 1 and what is needed to reproduce it.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.store.crash import replay
from tests.store.crash.actor import COMPACTING, LAYOUTS, SCENARIOS
from tests.store.crash.faults import FailAt
from tests.store.crash.kills import SIZES, kill_repeatedly
from tests.store.crash.steps import STEPS, Prepared, fail
from tests.store.crash.test_failing_calls import CODES
from tests.store.crash.test_prefixes import cut_archive, cut_log

ROOT = Path(__file__).parents[3]
STYLES_PER_CUT = 3


def kills(count: int, seed: int) -> Iterator[str]:
    """Kill writers at random moments, mostly with small messages, because those are quick."""
    done = acknowledged = 0
    turn = 0
    while done < count:
        for layout in LAYOUTS:
            for size, (_, sessions) in SIZES.items():
                times = 4 * sessions if size < 10_000 else sessions
                with tempfile.TemporaryDirectory(prefix="cortext-kills-") as folder:
                    acknowledged += kill_repeatedly(layout, size, folder, seed + turn, times)
                done += times
                yield f"{done:,} of {count:,} kills, {acknowledged:,} messages acknowledged and found"
                if done >= count:
                    return
        turn += 1


def forks() -> Iterator[str]:
    """Kill at every call, and in the middle of every write, with the full check each time."""
    total = 0
    for layout in LAYOUTS:
        for scenario in SCENARIOS:
            for how in ([], ["--half"]):
                with tempfile.TemporaryDirectory(prefix="cortext-forks-") as folder:
                    command = [sys.executable, "-m", "tests.store.crash.forks", layout, scenario, folder, "--thorough"]
                    done = subprocess.run([*command, *how], cwd=ROOT, capture_output=True, text=True, check=False)
                report = json.loads(done.stdout or "{}")
                if done.returncode:
                    raise AssertionError("\n".join(report.get("failures", [done.stderr])))
                total += report["kills"]
                yield f"{total:,} kills at a chosen call"


def power(seeds: int, seed: int) -> Iterator[str]:
    """Cut the power at every operation of every recording, also after kills and failed flushes."""
    states = 0
    with tempfile.TemporaryDirectory(prefix="cortext-power-") as folder:
        for number in range(seed, seed + seeds):
            chance = random.Random(number)
            for layout in LAYOUTS:
                for scenario in SCENARIOS:
                    base = os.path.join(folder, f"{layout}-{scenario}-{number}")
                    plain = replay.record(layout, scenario, base)
                    flushes = replay.flushes(plain)
                    recordings = {
                        "plain": plain,
                        "kill": replay.record(layout, scenario, f"{base}-k", kill_at=chance.randint(1, len(plain) - 1)),
                        "flush": replay.record(layout, scenario, f"{base}-f", fail_sync_at=chance.randint(1, flushes)),
                    }
                    for name, ops in recordings.items():
                        for cut, style in replay.cuts(ops, STYLES_PER_CUT if name == "plain" else 1, chance):
                            states += 1
                            if text := replay.check_cut(layout, ops, cut, style, number, folder):
                                raise AssertionError(f"{scenario}, {name}, {text}")
                    yield f"{states:,} disks after a power cut (seed {number})"


def failures() -> Iterator[str]:
    """Fail every call of every step with every error, including reads and closes."""
    tried = 0
    for step in STEPS:
        for layout in step.layouts:
            with tempfile.TemporaryDirectory(prefix="cortext-fail-") as folder:
                prepared = Prepared(step, layout, os.path.join(folder, "case"))
                for number in range(1, len(prepared.calls().names) + 1):
                    for code in CODES:
                        tried += 1
                        fail(prepared, FailAt(number, code, partly=bool(tried % 2)))
            yield f"{tried:,} calls failed ({layout}: {step.name})"


def prefixes() -> Iterator[str]:
    """Cut logs and archives after every byte."""
    total = 0
    for cut, layouts in ((cut_log, tuple(LAYOUTS)), (cut_archive, COMPACTING)):
        for layout in layouts:
            with tempfile.TemporaryDirectory(prefix="cortext-prefixes-") as folder:
                total += cut(layout, Path(folder), 1)
            yield f"{total:,} files cut ({layout})"


def main() -> int:
    parser = argparse.ArgumentParser(description="The long versions of the crash tests.")
    parser.add_argument("--kills", type=int, default=0, help="how many writers to kill at random moments")
    parser.add_argument("--forks", action="store_true", help="kill at every single call")
    parser.add_argument(
        "--power", type=int, default=0, metavar="SEEDS", help="cut the power at every operation, with this many seeds"
    )
    parser.add_argument("--fail", action="store_true", help="let every call fail with every error")
    parser.add_argument("--prefixes", action="store_true", help="cut logs and archives after every byte")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    options = parser.parse_args()
    if not (options.kills or options.forks or options.power or options.fail or options.prefixes):
        options.kills, options.power = 5000, 100
        options.forks = options.fail = options.prefixes = True
    print(f"seed {options.seed}", flush=True)
    started = time.monotonic()
    parts: list[Iterator[str]] = []
    if options.kills:
        parts.append(kills(options.kills, options.seed))
    if options.forks:
        parts.append(forks())
    if options.power:
        parts.append(power(options.power, options.seed))
    if options.fail:
        parts.append(failures())
    if options.prefixes:
        parts.append(prefixes())
    for part in parts:
        for line in part:
            print(f"\r{time.monotonic() - started:7.0f} s  {line}\033[K", end="", flush=True)
        print()
    print("all checks passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
