"""Ctrl-C while something is under way: it stops that, and not us.

From Enter to the next prompt no Ctrl-C may be lost, nor may it cost the words that were typed. So a talk runs within
`remembering`: a Ctrl-C that comes when nothing can be stopped yet waits for `on_interrupt`, which stops the turn as
soon as there is one. A command of ours, which nobody can tell to stop, runs within `raising`.
"""

from __future__ import annotations

import signal
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import FrameType


class Remembered:
    """A handler that only remembers that Ctrl-C was pressed."""

    def __init__(self) -> None:
        self.came = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.came = True

    def take(self) -> bool:
        """Whether it was pressed; asked once."""
        came, self.came = self.came, False
        return came


def current() -> Remembered:
    """What is remembered now; outside of `remembering` nothing ever is."""
    handler = signal.getsignal(signal.SIGINT)
    return handler if isinstance(handler, Remembered) else Remembered()


@contextmanager
def remembering() -> Iterator[None]:
    """Within the block Ctrl-C is remembered for the next `on_interrupt` or `raising`."""
    before = signal.signal(signal.SIGINT, Remembered())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def raising(*, echo: bool = True) -> Iterator[None]:
    """Within the block Ctrl-C raises KeyboardInterrupt; at once, where one was remembered.

    Without `echo`, keys that are typed ahead are shown by the next prompt only.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        if isinstance(before, Remembered) and before.take():
            raise KeyboardInterrupt
        with nullcontext() if echo else _no_echo():
            yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def on_interrupt(stop: Callable[[], object]) -> Iterator[None]:
    """Within the block Ctrl-C calls `stop` instead of raising KeyboardInterrupt; one that was remembered does too.

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
        if isinstance(before, Remembered) and before.take():
            stop()
        with _no_echo():
            yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def interruptible_talk() -> Iterator[None]:
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

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    heard = [*before]
    heard[3] |= termios.ECHO
    termios.tcsetattr(descriptor, termios.TCSADRAIN, heard)
    try:
        return input(question)
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
