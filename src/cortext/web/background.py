"""Work that takes long, in a thread of its own: a reader waits a moment for it, and then sees how far it is."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

Result = TypeVar("Result")
Note = Callable[[int, int], None]  # called with what is done and what there is to do

PATIENCE = 2.0  # seconds that a reader waits


class Stopped(Exception):
    """The server ends."""


class Background(Generic[Result]):
    """A result that is kept until what it was made of changes."""

    def __init__(self, work: Callable[[Note], Result], patience: float = PATIENCE) -> None:
        self._work, self._patience = work, patience
        self._pool = ThreadPoolExecutor(1, "background")
        self._running: Future[Result] | None = None
        self._kept: Result | None = None
        self._kept_for: object = None
        self._stopping = False
        self.done, self.total = 0, 0  # of what is being made

    def close(self) -> None:
        """Stop; what is being made now ends at its next step."""
        self._stopping = True
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def get(self, state: object) -> tuple[Result | None, bool]:
        """Return the result, and whether it is the one for this state.

        If that takes long, it is the one before, or None if there is none yet. Raises what the work raises.
        """
        if self._kept is not None and self._kept_for == state:
            return self._kept, True
        if self._running is None or (self._running.done() and self._running.exception() is None):
            self._running = self._pool.submit(self._make, state)
        running = self._running
        await self._wait(running)
        if not running.done():
            return self._kept, False
        if running.exception() is not None:
            self._running = None  # the next reader tries again
        elif self._kept_for != state:
            self._running = self._pool.submit(self._make, state)
        return running.result(), self._kept_for == state

    async def _wait(self, running: Future[Result]) -> None:
        """Wait until it is done, but not for long."""
        loop, finished = asyncio.get_running_loop(), asyncio.Event()

        def tell(_: object) -> None:
            with contextlib.suppress(RuntimeError):  # the server has ended meanwhile
                loop.call_soon_threadsafe(finished.set)

        running.add_done_callback(tell)
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(finished.wait(), self._patience)

    def _make(self, state: object) -> Result:
        self.done = self.total = 0
        made = self._work(self._note)
        self._kept, self._kept_for = made, state
        return made

    def _note(self, done: int, total: int) -> None:
        if self._stopping:
            raise Stopped
        self.done, self.total = done, total
