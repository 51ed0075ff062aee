"""Processes that write or read one session at the same time, from a common start.

    python -m tests.store.crash.race append|naive|read LAYOUT ROOT NAME COUNT
    python -m tests.store.crash.race hold LAYOUT ROOT

Each prints "ready" and waits for a line on its input. Writers end by themselves; readers read until the next
line; a holder prints "held" and keeps the lock until it is killed or gets a line.
"""

from __future__ import annotations

import json
import os
import random
import select
import sys

import msgspec

from cortext.model import clock
from tests.store.crash.actor import LAYOUTS, SESSION, checked_name, files_of, make_message
from tests.store.crash.invariants import plain

WAIT = 120.0


def sizes(name: str, count: int) -> list[int]:
    """Return the lengths of a writer's messages in characters: from 200 to 800,000, most of them short."""
    chance = random.Random(name)
    long = [800_000, *[64_000] * (count // 60), *[20_000] * (count // 20)]
    lengths = long + [chance.randint(200, 2000) for _ in range(count - len(long))]
    chance.shuffle(lengths)
    return lengths[:count]


def append(layout: str, root: str, name: str, count: int) -> None:
    """Append through the store, taking and releasing the lock each time."""
    store = LAYOUTS[layout](root, lock_timeout=WAIT)
    for number, size in enumerate(sizes(name, count)):
        store.append(SESSION, make_message(f"{name}-{number}", size))


def naive(layout: str, root: str, name: str, count: int) -> None:
    """Append the same lines without a lock, in many small writes: the control that must fail."""
    log = files_of(LAYOUTS[layout](root)).log
    with open(log, "rb") as file:
        seq = sum(1 for _ in file)
    with open(log, "ab", buffering=0) as file:
        for number, size in enumerate(sizes(name, count)):
            message = make_message(f"{name}-{number}", size, id=f"{name}-{number}")
            message.seq, message.tokens, message.timestamp = seq + number, size, clock.now()
            chunks = json.JSONEncoder().iterencode(msgspec.to_builtins(message))
            file.writelines(chunk.encode() for chunk in (*chunks, "\n"))  # unbuffered: one write per chunk


def read(layout: str, root: str) -> None:
    """Read all messages and the tail until a line arrives; then print how many messages each read saw."""
    store = LAYOUTS[layout](root)
    seen = []
    damage = []
    while not select.select([sys.stdin], [], [], 0)[0]:
        messages = plain(store.read(SESSION))
        for number, message in enumerate(messages):
            assert message.seq == number, f"message {number} has number {message.seq}"
            checked_name(message)
        last = plain(store.tail(SESSION, 3))
        for message in last:
            checked_name(message)
        assert not last or last[-1].seq >= len(messages) - 1, "the tail is behind"
        damage += [f"{item}" for item in store.check(SESSION)]
        seen.append(len(messages))
    print(json.dumps({"seen": seen, "damage": damage[:3]}), flush=True)


def hold(layout: str, root: str) -> None:
    """Append a message and keep the lock until killed or a line arrives."""
    with LAYOUTS[layout](root).open(SESSION) as writer:
        writer.append(make_message("held-0"))
        print("held", flush=True)
        sys.stdin.readline()


def main() -> None:
    role, layout, root = sys.argv[1:4]
    if role != "hold":
        print("ready", flush=True)
        os.read(0, 1)
    if role == "read":
        read(layout, root)
    elif role == "hold":
        hold(layout, root)
    else:
        {"append": append, "naive": naive}[role](layout, root, sys.argv[4], int(sys.argv[5]))


if __name__ == "__main__":
    main()
