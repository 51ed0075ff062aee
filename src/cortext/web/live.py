"""Live updates: an event whenever the list, or a conversation, has changed. The page then asks for what is new.

A page names the state that it shows: what changed before it began to follow is announced too.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from cortext.errors import CortextError
from cortext.services.library.listing import Row
from cortext.web.pages import library

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
