"""Formatting that ends: what a stored text makes slow is interrupted, and shown as it was written.

Every highlighter, and comparing two texts, takes seconds for some text of a few kilobytes. Only a process' main thread
can be interrupted, even within one regular expression. So a server formats in processes of its own, one for each thread
that asks at the same time, and in another thread nothing is formatted. The limits are processor time: a busy machine
does not change what is shown.
"""

from __future__ import annotations

import math
import os
import pickle
import selectors
import signal
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

Result = TypeVar("Result")

BASE, EACH = 0.01, 25e-6  # seconds for a text, and for each of its characters: ten times what ordinary ones take
TOGETHER = 2.0  # seconds for all texts that are shown together
PATIENCE = 60.0  # seconds by the clock until a process counts as lost
IDLE = 2  # processes that are kept for the next request

_LENGTH = struct.Struct(">Q")
_left = math.inf  # seconds that the main thread may still spend
_armed = False
_idle: list[subprocess.Popen[bytes]] = []


class TooLong(BaseException):
    """Formatting took too long. No `except Exception` in a library stops it."""


def within(size: int, work: Callable[[], Result]) -> Result:
    """Return the result of work on a text of so many characters. Raises TooLong at its limit or at the budget's."""
    global _left, _armed
    if not may_format():
        raise TooLong
    seconds = min(BASE + EACH * size, _left)
    before, began = signal.getsignal(signal.SIGPROF), time.process_time()
    try:
        signal.signal(signal.SIGPROF, _interrupt)
        _armed = True
        signal.setitimer(signal.ITIMER_PROF, seconds)
        return work()
    finally:
        _armed = False
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
        _left -= time.process_time() - began


def may_format() -> bool:
    """Whether this thread can be interrupted, and has time left."""
    return _left > 0 and threading.current_thread() is threading.main_thread()


def _interrupt(*_: object) -> None:
    if _armed:
        raise TooLong


@contextmanager
def budget(seconds: float = TOGETHER) -> Iterator[None]:
    """Limit what all texts in this block may take together; the rest is shown as it was written."""
    global _left
    before, _left = _left, seconds
    try:
        yield
    finally:
        _left = before


def run(work: Callable[..., str], *values: Any) -> str:
    """Return the text that a function of a module makes of values, in a process that can be interrupted."""
    if threading.current_thread() is threading.main_thread():
        return work(*values)
    try:
        process = _waiting() or _started(work.__module__)
        answer = _asked(process, pickle.dumps((work, values)))
    except (OSError, EOFError, ValueError, pickle.PicklingError):
        return work(*values)  # unformatted; and if it failed there, the error is raised here
    if len(_idle) < IDLE:
        _idle.append(process)
    else:
        _end(process)
    return answer


def warm(work: Callable[..., str]) -> None:
    """Start a process for the first request, which will be this function's."""
    _idle.append(_started(work.__module__))


def _waiting() -> subprocess.Popen[bytes] | None:
    while _idle:
        process = _idle.pop()
        if process.poll() is None:
            return process
        process.communicate()
    return None


def _started(module: str) -> subprocess.Popen[bytes]:
    """Start a process that has imported a module before the first question."""
    return subprocess.Popen(
        [sys.executable, "-c", f"import {module}; from {__name__} import answer; answer()"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip


def _asked(process: subprocess.Popen[bytes], question: bytes) -> str:
    """Return the answer of a process. Raises OSError or EOFError, with the process ended, if there is none."""
    assert process.stdin is not None and process.stdout is not None
    try:
        process.stdin.write(_LENGTH.pack(len(question)) + question)
        process.stdin.flush()
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            if not selector.select(PATIENCE):
                raise EOFError
        return _read(process.stdout).decode("utf-8", "surrogatepass")
    except BaseException:
        _end(process)
        raise


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()


def _read(stream: Any) -> bytes:
    head: bytes = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    body: bytes = stream.read(_LENGTH.unpack(head)[0])
    return body


def answer() -> None:
    """Answer questions until the input ends, as it does with the server."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    while True:
        try:
            work, values = pickle.loads(_read(sys.stdin.buffer))
        except EOFError:
            return
        answer = work(*values).encode("utf-8", "surrogatepass")
        answers.write(_LENGTH.pack(len(answer)) + answer)
        answers.flush()
