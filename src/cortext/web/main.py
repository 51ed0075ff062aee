"""Serving the page: a loopback port, the address with its token, and the browser, until Ctrl-C.

A connection that has not shown the key is short, and there are only so many of them. If there are too many, the oldest
is closed: a browser sends its request at once, and is not among the oldest then.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import secrets
import signal
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable
from html import escape
from typing import Any, ClassVar

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from cortext.config import folders
from cortext.config.load import settings_of
from cortext.errors import CortextError, UsageError
from cortext.io import durable
from cortext.services.workspace.auto_pause import start_pausing
from cortext.web.app import application
from cortext.web.html import message
from cortext.web.library import PageLibrary
from cortext.web.security import Access, cookie_of
from cortext.wiring.stores import Stores

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


LOOPBACK = "127.0.0.1"
NAMES = ("127.0.0.1", "localhost", "[::1]")
EVERYWHERE = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}  # listening on every address, and how this machine reaches it
CLOSING = 2  # seconds for requests that are running when the server ends


def serve(
    later: Callable[[], None],
    *,
    port: int = 0,
    host: str = "",
    name: str = "",
    password: str = "",
    opening: bool = True,
    as_json: bool = False,
) -> int:
    """Serve until Ctrl-C or SIGTERM. With `host`, the page is reachable from elsewhere, and asks for the password.

    `name` is the host that a proxy in front of it is known by, with its port unless that is the usual one.
    """
    listening = _listen(host or LOOPBACK, port)
    number: int = listening.getsockname()[1]
    shown = f"[{host}]" if ":" in host else host
    names = [*NAMES, *([shown.lower()] if host else [])]
    if host in EVERYWHERE:
        names += [socket.gethostname().lower(), socket.getfqdn().lower()]
    access = Access(number, names, password, by_address=host in EVERYWHERE, proxied=[name.lower()] if name else [])
    url = f"http://{EVERYWHERE.get(host, shown) or LOOPBACK}:{number}/"
    address = url if password else f"{url}?token={access.token}"
    library = PageLibrary(later, remote=bool(password))
    stop = threading.Event()
    minutes = settings_of("", only_reads=True).workspace.pause_minutes
    start_pausing(lambda: Stores(library.folder).listing(), settings_of, minutes, stop)
    private = os.path.join(folders.state(), "web", f"{secrets.token_hex(8)}.html")
    try:
        asyncio.run(
            _run(listening, access, library, lambda: _announce(address, private if opening else "", as_json=as_json))
        )
    finally:
        stop.set()
        library.close()
        listening.close()
        with contextlib.suppress(CortextError, OSError):
            durable.remove(private)
    return 0


def _listen(host: str, port: int) -> socket.socket:
    """Return a bound socket. Raises UsageError if the address is not to be had."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        made = socket.socket(found[0], found[1])
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(found[4])
    except (OSError, OverflowError) as error:
        why = getattr(error, "strerror", None) or error
        hint = "choose another --port, or leave it out for a free one"
        raise UsageError(f"cannot listen on {host}:{port}: {why}", hint=hint) from error
    return made


async def _run(listening: socket.socket, access: Access, library: PageLibrary, ready: Callable[[], None]) -> None:
    page, guard = application(library, access)
    logging.getLogger("uvicorn").setLevel(logging.CRITICAL)  # malformed requests are not the reader's concern
    config = uvicorn.Config(
        guard,
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="off",
        ws="none",
        timeout_keep_alive=30,
        timeout_graceful_shutdown=CLOSING,
        h11_max_incomplete_event_size=16 << 10,
        http=Connection.for_access(access),
        backlog=WAITING,
        proxy_headers=access.is_proxied,  # otherwise anyone could name another address than their own
    )
    server = uvicorn.Server(config)
    loop = asyncio.get_running_loop()

    def stop() -> None:
        page.state.stopping.set()
        server.should_exit = True

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        loop.add_signal_handler(number, stop)
    server.capture_signals = contextlib.nullcontext  # type: ignore[assignment,method-assign]  # ours end the pages first
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    while not server.started and not serving.done():
        await asyncio.sleep(0.01)
    if server.started:
        message.warm()
        ready()
    await serving
    page.state.background.close()


def _announce(address: str, private: str, *, as_json: bool) -> None:
    """Print the address, and open it by way of a private file, if one is given."""
    if as_json:
        print(json.dumps({"address": address, "process": os.getpid()}), flush=True)
    else:
        print(f"cortext is at {address}", flush=True)
        if "token=" in address:
            print("The address works once: it gives this browser the key. Ctrl-C stops.", flush=True)
        else:
            print("It asks for the password. What it sends is not encrypted. Ctrl-C stops.", flush=True)
    if private:
        # Starting a browser may block, and its noise does not belong on this terminal.
        threading.Thread(target=_open, args=(address, private), daemon=True).start()


def _open(address: str, path: str) -> None:
    """Open the address from a private file: the arguments of a program are visible to everyone on the machine."""
    folder = os.path.dirname(path)
    page = f'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0;url={escape(address)}">'
    try:
        durable.ensure_folder(folder)
        for name in os.listdir(folder):  # of servers that were killed
            durable.remove(os.path.join(folder, name))
        durable.replace_file(path, [page.encode()])
        if not webbrowser.open(f"file://{path}"):
            print("No browser could be opened: open the address yourself.", file=sys.stderr)
    except Exception as error:
        print(f"No browser could be opened ({error}): open the address yourself.", file=sys.stderr)
