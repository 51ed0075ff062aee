"""Waiting in tests: until a state is reached, which other processes and threads can only be asked about.

No other file of the tests sleeps (`test_isolation` checks that). Where there is something to wait for itself, wait for
that: a line of a pipe, the end of a child, an event of a thread, a request to a server.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


def wait_until(condition: Callable[[], T], seconds: float = 60.0, why: Callable[[], str] | str = "") -> T:
    """Ask until something holds, and return that; fail after so many seconds with what was not so."""
    deadline = time.monotonic() + seconds
    while not (holds := condition()):
        late = time.monotonic() > deadline
        assert not late, f"not within {seconds:g} s: {why if isinstance(why, str) else why()}"
        time.sleep(0.02)
    return holds


def strike_after(seconds: float) -> None:
    """Let time pass, for a kill or a fault that is to strike at a random moment of what others do."""
    time.sleep(max(0.0, seconds))


def wait_for_exit_code(file: Path, seconds: float, why: Callable[[], str]) -> int:
    """Return the exit code that the shell of a terminal writes into this file when its program has exited."""
    wait_until(lambda: file.exists() and file.read_text("utf-8").endswith("\n"), seconds, lambda: f"it exits\n{why()}")
    return int(file.read_text("utf-8"))
