"""`kill -9` at a random moment, while a writer writes; then the store is opened and checked."""

from __future__ import annotations

import os
import random
import select
import subprocess
import sys
import time
from pathlib import Path

from tests.store.crash import invariants
from tests.store.crash.talk import Ledger, read_diary

ROOT = Path(__file__).parents[3]
# Characters a message; how many seconds at most a writer lives after its first promise, and how many
# writers one session has to bear (the checks read it all again and again).
SIZES = {2_000: (0.03, 6), 64_000: (0.02, 3), 1_000_000: (0.06, 2)}


def kill_once(layout: str, root: str, size: int, name: str, ledger: Ledger, chance: random.Random) -> int:
    """Start a writer, kill it, check. How many messages it had been promised."""
    command = [sys.executable, "-m", "tests.store.crash.writer", layout, root, str(size), name]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        pipe = writer.stdout.fileno()
        try:
            said = os.read(pipe, 1 << 16)
            while b'"ack", "append"' not in said and chance.random() < 0.9:  # some die before their first promise
                said += os.read(pipe, 1 << 16)
            moment = time.monotonic() + chance.random() * SIZES[size][0]
            while (left := moment - time.monotonic()) > 0:
                if select.select([pipe], [], [], left)[0]:
                    said += os.read(pipe, 1 << 16)
        finally:
            writer.kill()
        said += writer.stdout.read()
    assert writer.returncode == -9, f"the writer ended by itself: {writer.returncode}"
    before = len(ledger.acked)
    for event in read_diary(said):
        ledger.add(event)
    promised = len(ledger.acked) - before
    invariants.check(layout, root, ledger, chance.choice(invariants.FIRST), f"after.{name}-0")
    return promised


def kill_often(layout: str, size: int, folder: str, seed: int, kills: int) -> int:
    """Kill writers one after another; how many messages they were promised in all."""
    chance = random.Random(f"{layout} {size} {seed}")
    ledger = Ledger()
    promised = 0
    for number in range(kills):
        store = os.path.join(folder, f"{number // SIZES[size][1]}")
        if not os.path.exists(store):
            ledger = Ledger()
        promised += kill_once(layout, store, size, f"k{number}", ledger, chance)
    return promised
