"""How a client opens the connection if this server took long to start.

Claude Code and Copilot first ask for the newest protocol (`server/discover`). If no answer comes in time, they go on
with `initialize`, on the same connection; the SDK would refuse that, because the first request decides the protocol.
"""

from __future__ import annotations

from contextlib import suppress
from types import TracebackType
from typing import Self

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCRequest

_WAIT = 0.1  # seconds in which what the client has sent already is read

Item = SessionMessage | Exception


class WithoutOldProbe:
    """The client's messages, without a first request that it no longer waits for."""

    def __init__(self, stream: MemoryObjectReceiveStream[Item]) -> None:
        self._stream = stream
        self._is_first = True
        self._next: list[Item] = []

    async def receive(self) -> Item:
        """Return the next message; raise anyio.EndOfStream after the last."""
        if self._next:
            return self._next.pop()
        item = await self._stream.receive()
        if self._is_first and _method(item) == "server/discover":
            with suppress(anyio.EndOfStream), anyio.move_on_after(_WAIT):
                self._next.append(await self._stream.receive())
            if self._next and _method(self._next[0]) == "initialize":
                item = self._next.pop()
        self._is_first = False
        return item

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Item:
        try:
            return await self.receive()
        except anyio.EndOfStream:
            raise StopAsyncIteration from None

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


def _method(item: Item) -> str:
    if isinstance(item, SessionMessage) and isinstance(item.message, JSONRPCRequest):
        return item.message.method
    return ""
