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
def whole_talk() -> Iterator[None]:
    """Within the block a terminal echoes no key by itself: what is typed ahead is shown by the prompt, once.

    Where the answers go elsewhere there is no prompt that could show it.
    """
    if not sys.stdout.isatty():
        yield
        return
    with _no_echo():
        yield


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


def answer_to(question: str) -> str:
    """What a person types as the answer to a question, seen as it is typed also where keys are not echoed."""
    if not sys.stdin.isatty():
        return input(question)
    import termios

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    heard = [*before]
    heard[3] |= termios.ECHO
    termios.tcsetattr(descriptor, termios.TCSADRAIN, heard)
    try:
        return input(question)
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
