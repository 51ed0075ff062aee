"""What a page waits for: live updates, and work that takes long.

An event comes whenever the list, or a conversation, has changed; the page then asks for what is new. It names the state
that it shows, so what changed before it began to follow is announced too. Long work has a thread of its own: a reader
waits a moment for it, and then sees how far it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Generic, TypeVar

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from cortext.errors import CortextError
from cortext.services.library.listing import Row
from cortext.web.pages import library

Result = TypeVar("Result")
Note = Callable[[int, int], None]  # called with what is done and what there is to do

PATIENCE = 2.0  # seconds that a reader waits


class ServerStopped(Exception):
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
            raise ServerStopped
        self.done, self.total = done, total


EVERY = 0.6  # seconds between two looks
QUIET = 15.0  # seconds after which a line is sent, so that a closed connection is noticed
MOST_OPEN = 24  # pages that are followed at a time

State = Callable[[], Awaitable[tuple[object, ...]]]


def state_of(row: Row) -> tuple[object, ...]:
    """Return a value that changes with a conversation."""
    return row.message_count, row.last_active, row.status, row.title


def mark_of(state: tuple[object, ...]) -> str:
    """Return a short name of a state, for an address."""
    return hashlib.blake2b(repr(state).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


async def follow_list(request: Request) -> Response:
    """Follow the list of conversations."""
    return await _followed(request, library(request).state)


async def follow(request: Request) -> Response:
    """Follow one conversation."""
    store, session = request.path_params["store"], request.path_params["session"]

    async def state() -> tuple[object, ...]:
        try:
            row = await library(request).row(store, session)
        except CortextError:
            return ("gone",)
        return state_of(row)

    return await _followed(request, state)


async def _followed(request: Request, state: State) -> Response:
    following: set[object] = request.app.state.following
    if len(following) >= MOST_OPEN:
        return PlainTextResponse("too many pages are open", 503)
    headers = {"X-Accel-Buffering": "no"}
    return StreamingResponse(_events(request, state), media_type="text/event-stream", headers=headers)


async def _events(request: Request, state: State) -> AsyncIterator[str]:
    following: set[object] = request.app.state.following
    me = object()
    following.add(me)
    try:
        known = request.query_params.get("shown", "") or mark_of(await state())
        said = time.monotonic()
        yield "retry: 2000\n\n"
        while not request.app.state.stopping.is_set() and not await request.is_disconnected():
            await asyncio.sleep(EVERY)
            now = await state()
            if mark_of(now) != known:
                known = mark_of(now)
                said = time.monotonic()
                yield f"event: changed\ndata: {json.dumps(now)}\n\n"
            elif time.monotonic() - said > QUIET:
                said = time.monotonic()
                yield ": nothing new\n\n"
    finally:
        following.discard(me)
