"""Ctrl-C while something is under way: it stops that, and not us."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def on_interrupt(stop: Callable[[], object]) -> Iterator[None]:
    """Within the block Ctrl-C calls `stop` instead of raising KeyboardInterrupt.

    `stop` runs in the signal's handler: it must only leave word (see Talk.stop). Keys are not echoed meanwhile:
    what is typed ahead belongs to the next prompt.
    """

    def handle(number: int, frame: FrameType | None) -> None:
        stop()

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, handle)
    try:
        with _no_echo():
            yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def _no_echo() -> Iterator[None]:
    if not sys.stdin.isatty():
        yield
        return
    import termios

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    quiet = [*before]
    quiet[3] &= ~termios.ECHO
    termios.tcsetattr(descriptor, termios.TCSADRAIN, quiet)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
