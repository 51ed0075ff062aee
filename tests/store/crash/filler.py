"""A process with a file size limit that appends until it is refused.

    python -m tests.store.crash.filler LAYOUT ROOT BYTES

RLIMIT_FSIZE simulates a full disk without privileges: the kernel writes what still fits, then refuses (EFBIG).
"""

from __future__ import annotations

import os
import resource
import signal
import sys

from cortext.errors import WriteFailed
from tests.store.crash.actor import Actor, Event, event_line

REFUSALS = 3


def print_event(event: Event) -> None:
    os.write(1, event_line(event))


def fill(actor: Actor, size: int) -> int:
    """Append in ever smaller messages until refused a few times; return how many appends were attempted."""
    refused = number = 0
    while refused < REFUSALS:
        try:
            actor.append(f"f-{number}", f"g-{number}", size=size)
        except WriteFailed:
            refused += 1
            size //= 3  # a smaller message may still fit, and must then be kept
        number += 1
    return number


def main(layout: str, root: str, size_limit: int) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    actor = Actor(layout, root, print_event)
    actor.create()
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_limit, size_limit))
    fill(actor, 9000)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
