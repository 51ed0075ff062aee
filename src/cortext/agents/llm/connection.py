"""A provider's HTTP connections: timeouts, and cutting them from another thread.

Closing a socket does not wake a thread that reads from it; shutting it down does. So every socket that a client opens
is recorded, through the `trace` extension of httpx (and of its sibling httpx2).
"""

from __future__ import annotations

import socket
import ssl
import threading
import weakref
from typing import Any, Generic, TypeVar

import msgspec

from cortext.io.http import is_loopback


class Limits(msgspec.Struct, frozen=True):
    """How long a model may take, and how often a request is retried. Seconds."""

    connect: float = 10.0
    silence: float = 120.0  # between two pieces of an answer
    retries: int = 3
    pause: float = 1.0  # before the first retry; doubled each time
    longest_pause: float = 60.0  # if a server asks for more, an error is raised instead
    streaming: bool = True


Thing = TypeVar("Thing")


class Gathered(Generic[Thing]):
    """A set of things that exist as long as someone uses them; thread-safe."""

    def __init__(self) -> None:
        self._things: weakref.WeakSet[Thing] = weakref.WeakSet()
        self._guard = threading.Lock()

    def add(self, thing: Thing) -> None:
        """Add one."""
        with self._guard:
            self._things.add(thing)

    def all(self) -> list[Thing]:
        """Return those that exist now."""
        with self._guard:
            return list(self._things)


class Wire:
    """The connections of one client: its timeouts and its open sockets."""

    def __init__(self, limits: Limits) -> None:
        self._sockets: Gathered[socket.socket] = Gathered()
        waits = {"connect": limits.connect, "pool": limits.connect, "read": limits.silence, "write": limits.silence}
        self._extensions = {"trace": self._note, "timeout": waits}

    def hooks(self) -> dict[str, list[Any]]:
        """Return the client's `event_hooks`: every request gets our timeouts and reports its socket to us."""
        return {"request": [self._watch]}

    def cut(self) -> None:
        """Break every connection now."""
        for found in self._sockets.all():
            try:
                found.shutdown(socket.SHUT_RDWR)
            except (OSError, ValueError):  # already closed
                pass

    def _watch(self, request: Any) -> None:
        # The libraries set timeouts of their own, and one of them none at all: ours win.
        request.extensions = {**request.extensions, **self._extensions}

    def _note(self, event: str, info: dict[str, Any]) -> None:
        if event.endswith((".connect_tcp.complete", ".start_tls.complete", ".connect_unix_socket.complete")):
            found = info["return_value"].get_extra_info("socket")
            if isinstance(found, socket.socket):
                self._sockets.add(found)


def options(wire: Wire, url: str) -> dict[str, Any]:
    """Return the options of an httpx (or httpx2) client for that address: watched by `wire`, without redirects.

    A key is sent where the user said and nowhere else. No proxy is used for addresses on this machine.
    """
    here = is_loopback(url)
    found: dict[str, Any] = {"event_hooks": wire.hooks(), "follow_redirects": False, "trust_env": not here}
    if here and url.startswith("http:"):
        # Loading the system's certificates takes a tenth of a second. This context trusts none of them.
        found["verify"] = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return found
