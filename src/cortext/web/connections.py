"""Connections to the page: one that has not shown the key is short, and there are only so many of them.

Whoever has the cookie is not limited. Of the others, each has a few seconds for a request and its answer, and where
there are too many, the oldest is closed: a browser sends its request at once, and is not among the oldest then.
"""

from __future__ import annotations

import asyncio
from typing import Any, ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol

from cortext.web.security import Access, cookie_of

STRANGER_SECONDS = 10.0  # for a request without the cookie, from the connection or the answer before to its own answer
MOST_STRANGERS = 256  # connections without it at the same time,
WAITING = 64  # and those that are accepted at once: fewer, so that a new one is heard before it is among the oldest


class Connection(H11Protocol):
    """A connection to the page of one server: `for_access` returns the class to use."""

    access: ClassVar[Access]
    strangers: ClassVar[dict[Connection, None]]  # in the order in which they came

    def __init__(self, *values: Any, **named: Any) -> None:
        super().__init__(*values, **named)
        self._head: object = None
        self._deadline: asyncio.TimerHandle | None = None

    @classmethod
    def for_access(cls, access: Access) -> type[Connection]:
        """Return a class whose connections know the key of this server."""
        return type("Connection", (cls,), {"access": access, "strangers": {}})

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count it as a stranger, and close the oldest if there are too many."""
        super().connection_made(transport)
        self._is_stranger()
        if len(self.strangers) > MOST_STRANGERS:
            next(iter(self.strangers))._close()

    def data_received(self, data: bytes) -> None:
        """Look at the cookie as soon as the head of a request is complete."""
        super().data_received(data)
        self._look()

    def on_response_complete(self) -> None:
        """Give the next request its own time."""
        super().on_response_complete()
        if self in self.strangers:
            self._is_stranger()
        self._look()  # at a request that was sent before the answer

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        self._forget()
        super().connection_lost(exc)

    def _look(self) -> None:
        if self.headers is None or self.headers is self._head:
            return
        self._head = self.headers
        if self.access.has_cookie(cookie_of({"headers": self.headers})):
            self._forget()
        elif self not in self.strangers:
            self._is_stranger()

    def _is_stranger(self) -> None:
        self.strangers.setdefault(self)
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self.loop.call_later(STRANGER_SECONDS, self._close)

    def _forget(self) -> None:
        self.strangers.pop(self, None)
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _close(self) -> None:
        self._forget()
        self.transport.abort()
