"""A proxy in front of the server that can cut the connections through it at any moment."""

from __future__ import annotations

import random
import selectors
import socket
import struct
import threading

from tests.support.waiting import wait_until

RESET = struct.pack("ii", 1, 0)  # makes close() send a reset, which looks like a broken connection


class Proxy:
    """Forwards a loopback port to the server. `cut` breaks every open connection."""

    def __init__(self, port: int, host: str = "127.0.0.1") -> None:
        self._target = (host, port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._pairs: dict[socket.socket, socket.socket] = {}
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._lock = threading.Lock()
        self._stopped = False
        self.cuts = 0
        self._cut_after = 0  # bytes until the next cut; 0: no cut
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def cut_soon(self, chance: random.Random) -> None:
        """Break all connections after a random number of bytes in either direction, perhaps inside a message."""
        with self._lock:
            self._cut_after = chance.randrange(1, 4000)

    def cut(self, chance: random.Random, timeout: float = 60.0) -> None:
        """Like `cut_soon`, but wait until it happened, so that a slow machine gets as many cuts as a fast one."""
        before = self.cuts
        self.cut_soon(chance)
        wait_until(lambda: self.cuts > before, timeout, "traffic to cut")

    def close(self) -> None:
        self._stopped = True
        self._thread.join(5)
        for end in list(self._pairs):
            self._drop(end)
        self._listener.close()

    def _serve(self) -> None:
        while not self._stopped:
            for key, _ in self._selector.select(0.05):
                if key.fileobj is self._listener:
                    self._accept()
                elif isinstance(key.fileobj, socket.socket) and key.fileobj in self._pairs:
                    self._forward(key.fileobj)

    def _accept(self) -> None:
        client, _ = self._listener.accept()
        try:
            server = socket.create_connection(self._target, timeout=5)
        except OSError:
            client.close()
            return
        for one, other in ((client, server), (server, client)):
            self._pairs[one] = other
            self._selector.register(one, selectors.EVENT_READ)

    def _forward(self, end: socket.socket) -> None:
        try:
            data = end.recv(65536)
        except OSError:
            data = b""
        if not data:
            self._drop(end)
            return
        with self._lock:
            left, self._cut_after = self._cut_after, max(0, self._cut_after - len(data))
        broken = 0 < left <= len(data)
        try:
            self._pairs[end].sendall(data[:left] if broken else data)
        except OSError:
            self._drop(end)
        if broken:
            self.cuts += 1
            for open_socket in list(self._pairs):
                self._drop(open_socket)

    def _drop(self, end: socket.socket) -> None:
        other = self._pairs.pop(end, None)
        for one in (end, other):
            if one is not None and one.fileno() >= 0:
                self._pairs.pop(one, None)
                self._selector.unregister(one)
                one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                one.close()
