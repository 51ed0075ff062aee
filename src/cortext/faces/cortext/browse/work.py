"""The threads of the browser, in which it searches and reads; only the newest request counts."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

from cortext.model.message import Message
from cortext.services.library.listing import Listing, Row
from cortext.wiring.stores import Stores

Request = TypeVar("Request")
Result = TypeVar("Result")

BEFORE, AFTER = 4, 40  # messages of a preview around the match


class ReadingPlace(NamedTuple):
    """The session to read, and the number of the message to show (-1: the newest)."""

    row: Row
    seq: int = -1


class Newest(Generic[Request, Result]):
    """A thread that handles the newest request; older requests are dropped, and so are their results."""

    def __init__(self, work: Callable[[Request], Result], done: Callable[[Request, Result | Exception], None]) -> None:
        self._work, self._done = work, done
        self._arrived = threading.Condition()
        self._waiting: list[Request] = []
        # A daemon: leaving the browser never waits for a search.
        threading.Thread(target=self._run, daemon=True).start()

    def ask(self, request: Request) -> None:
        """Handle this next, instead of a waiting request."""
        with self._arrived:
            self._waiting = [request]
            self._arrived.notify()

    @property
    def is_superseded(self) -> bool:
        """Whether there is a newer request."""
        return bool(self._waiting)

    def _run(self) -> None:
        while True:
            with self._arrived:
                self._arrived.wait_for(lambda: self._waiting)
                request = self._waiting.pop()
            result: Result | Exception
            try:
                result = self._work(request)
            except Exception as error:  # the browser shows it and continues
                result = error
            if not self.is_superseded:
                self._done(request, result)


class PreviewReader:
    """Reads the messages of a preview. Used in one thread only."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._listing: Listing | None = None

    def read(self, wanted: ReadingPlace) -> list[Message]:
        """Return the messages around the match, or the newest."""
        if self._listing is None or wanted.row.root not in self._listing.stores:
            self._listing = Stores(self._folder, only_reads=True).listing()
        store = self._listing.named_store(wanted.row.root).store
        if wanted.seq < 0:
            return store.tail(wanted.row.id, BEFORE + AFTER)
        found: list[Message] = []
        for message in store.read(wanted.row.id, max(0, wanted.seq - BEFORE)):
            if message.seq > wanted.seq + AFTER:
                break
            found.append(message)
        return found
