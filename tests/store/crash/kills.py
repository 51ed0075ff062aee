"""`kill -9` at a random moment while a process writes; then the store is opened and checked."""

from __future__ import annotations

import os
import random
import select
import subprocess
import sys
import time
from pathlib import Path

from tests.store.crash import invariants
from tests.store.crash.actor import Ledger, read_events

ROOT = Path(__file__).parents[3]
ACKNOWLEDGED = b'"ack", "append"'
# By characters per message: the longest life of a writer in seconds after its first acknowledgement, and how many
# writers are killed on one session (few, because every check reads all of it).
SIZES = {2_000: (0.03, 6), 64_000: (0.02, 3), 1_000_000: (0.06, 2)}
# Where files are in memory, a writer writes much in that time: its life also ends with so many acknowledgements.
MOST = {2_000: 40, 64_000: 12, 1_000_000: 5}


def kill_once(layout: str, root: str, size: int, name: str, ledger: Ledger, chance: random.Random) -> int:
    """Start a writer, kill it, check the store; return how many messages were acknowledged to it."""
    command = [sys.executable, "-m", "tests.store.crash.writer", layout, root, str(size), name]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        pipe = writer.stdout.fileno()
        try:
            output = os.read(pipe, 1 << 16)
            # By chance, some writers are killed before their first acknowledgement.
            while ACKNOWLEDGED not in output and chance.random() < 0.9:
                output += os.read(pipe, 1 << 16)
            deadline = time.monotonic() + chance.random() * SIZES[size][0]
            most = chance.randint(1, MOST[size])
            while (left := deadline - time.monotonic()) > 0 and output.count(ACKNOWLEDGED) < most:
                if select.select([pipe], [], [], left)[0]:
                    output += os.read(pipe, 1 << 16)
        finally:
            writer.kill()
        output += writer.stdout.read()
    assert writer.returncode == -9, f"the writer ended before it was killed: {writer.returncode}"
    before = len(ledger.acked)
    for event in read_events(output):
        ledger.add(event)
    acknowledged = len(ledger.acked) - before
    invariants.check(layout, root, ledger, chance.choice(invariants.FIRST), f"after.{name}-0")
    return acknowledged


def kill_repeatedly(layout: str, size: int, folder: str, seed: int, kills: int) -> int:
    """Kill writers one after another; return how many messages were acknowledged in total."""
    chance = random.Random(f"{layout} {size} {seed}")
    ledger = Ledger()
    acknowledged = 0
    for number in range(kills):
        store = os.path.join(folder, f"{number // SIZES[size][1]}")
        if not os.path.exists(store):
            ledger = Ledger()
        acknowledged += kill_once(layout, store, size, f"k{number}", ledger, chance)
    return acknowledged
