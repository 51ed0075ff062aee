"""Adversarial text: masking 62,500 and 1,000,000 characters of it, and a summary of 10,000 messages.

python -m bench.hostile

For the megabyte, linear work takes 16 times as long and quadratic work 256 times.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

from tests.safety.test_secrets import HOSTILE

from cortext.model.message import Message
from cortext.safety.secrets import masking as secrets
from cortext.services.text.summarise import summarise


def seconds(work: Callable[[], object]) -> float:
    """Return the CPU time of one run."""
    start = time.process_time()
    work()
    return time.process_time() - start


def main() -> None:
    secrets.mask("x" * 1000)  # compile the patterns
    for name, piece in HOSTILE.items():
        text = (piece * (1_000_000 // len(piece) + 1))[:1_000_000]
        small, large = seconds(partial(secrets.mask, text[:62_500])), seconds(partial(secrets.mask, text))
        print(f"mask {name:12} {small * 1000:8.1f} ms {large * 1000:8.1f} ms   x{large / max(small, 1e-4):.0f}")
    messages = [
        Message(role="user", content=f"Line {number} of a long conversation about this.") for number in range(10_000)
    ]
    print(f"summary of 10,000 messages {seconds(lambda: summarise(messages)) * 1000:8.1f} ms")


if __name__ == "__main__":
    main()
