"""A progress bar on standard error: on a terminal only, and never faster than ten times a second."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from cortext.faces.terminal.output import columns

MANY = 200  # things to do that justify a progress bar
MUCH = 1_000  # sessions or messages to index that do
UNNOTICED = 2.0  # seconds that a wait may take without a word
COMMITTING = (
    "Waiting for git to finish the commit: a hook of this repository, or another git process, is still running."
)


class Progress:
    """`with Progress("Importing", total) as bar: bar.step(bytes)`; the total may be 0 (unknown)."""

    def __init__(self, label: str, total: int, unit: str = "") -> None:
        self.label, self.total, self.unit = label, total, unit
        self.done = 0
        self._shown = 0.0
        self._live = sys.stderr.isatty()

    def step(self, amount: int = 1) -> None:
        """Count this much more as done."""
        self.done += amount
        now = time.monotonic()
        if self._live and now - self._shown > 0.1:
            self._shown = now
            sys.stderr.write("\r\x1b[K" + self._line())
            sys.stderr.flush()

    def _line(self) -> str:
        share = min(1.0, self.done / self.total) if self.total else 0.0
        width = max(10, min(40, (columns() or 80) - len(self.label) - 24))
        filled = int(share * width)
        return f"{self.label} [{'█' * filled}{'·' * (width - filled)}] {share:4.0%} {self.unit}"

    def end(self) -> None:
        """Remove the bar from the screen."""
        if self._live and self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()


@contextmanager
def progress_of_many(label: str) -> Iterator[Callable[[int, int], None]]:
    """Yield a function to call with what is done and the total; it shows a bar if there is much to do."""
    bars: list[Progress] = []

    def progress(done: int, total: int) -> None:
        if total < MANY:
            return
        if not bars:
            bars.append(Progress(label, total))
        bars[0].step()

    try:
        yield progress
    finally:
        for bar in bars:
            bar.end()


@contextmanager
def waiting(text: str = COMMITTING, after: float = UNNOTICED) -> Iterator[None]:
    """Say on standard error what is waited for, if what is done inside takes longer than this many seconds."""
    timer = threading.Timer(after, lambda: print(text, file=sys.stderr, flush=True))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


class WorkBar:
    """A progress bar for each kind of work, shown if there is much of it."""

    def __init__(self) -> None:
        self._label = ""
        self._bar: Progress | None = None

    def step(self, label: str, done: int, total: int) -> None:
        """Show that `done` of `total` of this work are done."""
        if total < MUCH:
            return
        if label != self._label or self._bar is None:
            self.end()
            self._label, self._bar = label, Progress(label, total)
        self._bar.step(done - self._bar.done)

    def end(self) -> None:
        """Remove it from the screen."""
        if self._bar is not None:
            self._bar.end()
            self._bar = None
