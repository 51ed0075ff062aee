"""Ctrl-C while something is running: stop that, not the program.

From Enter to the next prompt, no Ctrl-C may be lost, nor may it discard what was typed. So a chat runs within
`interrupts_deferred`: a Ctrl-C that comes before anything can be stopped waits for `on_interrupt`, which stops the turn
as soon as there is one. A command that has no way to be stopped runs within `interrupts_raised`.
"""

from __future__ import annotations

import os
import signal
import sys
import termios
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import FrameType


class PendingInterrupt:
    """A handler that only records that Ctrl-C was pressed."""

    def __init__(self) -> None:
        self.pressed = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.pressed = True

    def take(self) -> bool:
        """Return whether it was pressed, and reset it."""
        pressed, self.pressed = self.pressed, False
        return pressed


def pending_interrupt() -> PendingInterrupt:
    """Return the current record; outside of `interrupts_deferred`, one that is never set."""
    handler = signal.getsignal(signal.SIGINT)
    return handler if isinstance(handler, PendingInterrupt) else PendingInterrupt()


@contextmanager
def interrupts_deferred() -> Iterator[None]:
    """Within the block, Ctrl-C is recorded for the next `on_interrupt` or `interrupts_raised`."""
    before = signal.signal(signal.SIGINT, PendingInterrupt())
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def interrupts_raised(*, echo: bool = True) -> Iterator[None]:
    """Within the block, Ctrl-C raises KeyboardInterrupt; immediately if one is pending.

    Without `echo`, keys that are typed ahead are shown only by the next prompt.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        if isinstance(before, PendingInterrupt) and before.take():
            raise KeyboardInterrupt
        with nullcontext() if echo else _no_echo():
            yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def on_interrupt(stop: Callable[[], object]) -> Iterator[None]:
    """Within the block, Ctrl-C calls `stop` instead of raising KeyboardInterrupt; so does a pending one.

    `stop` runs in the signal handler: it must only set a flag (see Talk.stop). Keys are not echoed meanwhile, because
    what is typed ahead belongs to the next prompt.
    """

    def handle(number: int, frame: FrameType | None) -> None:
        stop()

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, handle)
    try:
        if isinstance(before, PendingInterrupt) and before.take():
            stop()
        with _no_echo():
            yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def echo_by_prompt_only() -> Iterator[None]:
    """Within the block, the terminal does not echo keys: the prompt shows what is typed ahead, once. It marks pastes.

    If standard output is redirected, there is no such prompt, and the terminal echoes as usual.
    """
    if not sys.stdout.isatty():
        yield
        return
    with _no_echo():
        mark_pastes()
        try:
            yield
        finally:
            mark_pastes(on=False)


def mark_pastes(*, on: bool = True) -> None:
    """Ask the terminal to mark what is pasted (bracketed paste), so that a pasted newline is no Enter.

    prompt_toolkit does so only while it reads, which is too late for a prompt that is already on the screen.
    """
    if sys.stdin.isatty() and sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        sys.stdout.write(f"\x1b[?2004{'h' if on else 'l'}")
        sys.stdout.flush()


@contextmanager
def _no_echo() -> Iterator[None]:
    if not sys.stdin.isatty():
        yield
        return

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    without_echo = [*before]
    without_echo[3] &= ~termios.ECHO
    without_echo[3] |= termios.NOFLSH  # Ctrl-C does not discard what was typed before it
    termios.tcsetattr(descriptor, termios.TCSADRAIN, without_echo)
    try:
        yield
    finally:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def answer_to(question: str) -> str:
    """Ask a question and return what is typed, with echo even where keys are not echoed otherwise."""
    if not sys.stdin.isatty():
        return input(question)

    descriptor = sys.stdin.fileno()
    before = termios.tcgetattr(descriptor)
    with_echo = [*before]
    with_echo[3] |= termios.ECHO
    termios.tcsetattr(descriptor, termios.TCSADRAIN, with_echo)
    is_chat = not before[3] & termios.ECHO  # only a chat marks pastes, and `input` would read the marks
    if is_chat:
        mark_pastes(on=False)
    try:
        return input(question)
    finally:
        if is_chat:
            mark_pastes()
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
