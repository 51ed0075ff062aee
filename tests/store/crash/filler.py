"""A process that may not make a file longer than so many bytes, and writes until it is refused.

    python -m tests.store.crash.filler LAYOUT ROOT BYTES

RLIMIT_FSIZE is a full disk that needs no rights: the kernel writes what still fits, then refuses (EFBIG).
"""

from __future__ import annotations

import os
import resource
import signal
import sys

from cortext.errors import WriteFailed
from tests.store.crash.talk import Actor, Event, diary_line

REFUSALS = 3


def tell(event: Event) -> None:
    os.write(1, diary_line(event))


def fill(actor: Actor, size: int) -> int:
    """Append until refused a few times; how many messages were taken."""
    refused = number = 0
    while refused < REFUSALS:
        try:
            actor.append(f"f-{number}", f"g-{number}", size=size)
        except WriteFailed:
            refused += 1
            size //= 3  # a smaller one may still fit, and must not be lost then
        number += 1
    return number


def main(layout: str, root: str, most: int) -> None:
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    actor = Actor(layout, root, tell)
    actor.create()
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
    fill(actor, 9000)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
