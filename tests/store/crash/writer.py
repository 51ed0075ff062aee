"""A process that writes to one session until it is killed, and prints what it attempted and what was acknowledged.

python -m tests.store.crash.writer LAYOUT ROOT SIZE PREFIX
"""

from __future__ import annotations

import os
import sys

from tests.store.crash.actor import COMPACTING, Actor, Event, event_line
from tests.store.crash.invariants import location


def print_event(event: Event) -> None:
    """Write the event straight into the pipe, so that no buffer is lost when the kill comes."""
    os.write(1, event_line(event))


def main(layout: str, root: str, size: int, prefix: str) -> None:
    actor = Actor(layout, root, print_event)
    where = location(actor.store)
    if where == "absent":
        actor.create()
    elif where == "trash":
        actor.restore()
    number = 0
    while True:
        actor.append(f"{prefix}-{number}", size=size)
        actor.append(f"{prefix}-{number + 1}", f"{prefix}-{number + 2}", size=size // 2)
        number += 3
        if number % 9 == 0:
            actor.title("second" if number % 2 else "first")
        if number % 12 == 0 and layout in COMPACTING:
            actor.compact(number - 6)
        if number % 21 == 0:
            actor.delete()
            actor.restore()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
