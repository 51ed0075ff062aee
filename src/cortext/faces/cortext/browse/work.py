"""What the browser does behind the screen: finding and reading, in threads of their own, the newest wish first."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

from cortext.model.message import Message
from cortext.services.library.listing import Listing, Row
from cortext.services.library.search import Match, Search
from cortext.wiring.stores import Stores

Wish = TypeVar("Wish")
Result = TypeVar("Result")

MOST = 500  # sessions that a list shows without words
FOUND = 60  # and with words
BEFORE, AFTER = 4, 40  # messages of a preview around the one that was found
FAINT = 0.5  # of the best score
FRESH = 5.0  # seconds for which the list is taken to be up to date


class Question(NamedTuple):
    """What is asked for: words and filters."""

    text: str = ""
    tool: str = ""
    type: str = ""
    status: str = ""
    root: str = ""


class Entry(NamedTuple):
    """A session of the list, with what was found in it."""

    row: Row
    matches: Sequence[Match] = ()


class Listed(NamedTuple):
    """The answer to a question, and what there is to filter by."""

    entries: list[Entry]
    tools: list[str]
    types: list[str]
    statuses: list[str]


class Wanted(NamedTuple):
    """The session to read, and the number of the message to show (-1: the newest)."""

    row: Row
    seq: int = -1


class Newest(Generic[Wish, Result]):
    """One thread that does the newest wish; wishes that were overtaken are dropped, and so are their results."""

    def __init__(self, work: Callable[[Wish], Result], done: Callable[[Wish, Result | Exception], None]) -> None:
        self._work, self._done = work, done
        self._news = threading.Condition()
        self._wish: list[Wish] = []
        # A daemon: leaving the browser never waits for a search.
        threading.Thread(target=self._run, daemon=True).start()

    def ask(self, wish: Wish) -> None:
        """Do this next, instead of what waits."""
        with self._news:
            self._wish = [wish]
            self._news.notify()

    @property
    def overtaken(self) -> bool:
        """Whether there is a newer wish."""
        return bool(self._wish)

    def _run(self) -> None:
        while True:
            with self._news:
                self._news.wait_for(lambda: self._wish)
                wish = self._wish.pop()
            result: Result | Exception
            try:
                result = self._work(wish)
            except Exception as error:  # it is shown; the browser goes on
                result = error
            if not self.overtaken:
                self._done(wish, result)


class Finder:
    """Lists and searches. Made and used in one thread: its databases belong to it."""

    def __init__(self, folder: str, progress: Callable[[str, int, int], None], later: Callable[[], None]) -> None:
        self._folder, self._progress, self._later = folder, progress, later
        self._listing: Listing | None = None
        self._search: Search | None = None
        self._listed_at = self._searched_at = -FRESH
        self._values: list[list[str]] = []

    def find(self, question: Question) -> Listed:
        """The sessions that answer a question, the newest or the best first."""
        if self._listing is None:
            self._listing = Stores(self._folder).listing()
        if time.monotonic() - self._listed_at > FRESH:
            self._listing.refresh()
            found = self._listing.cells(("tool", "type", "status"))
            self._values = [sorted({cells[place] for cells in found} - {""}) for place in range(3)]
            self._listed_at = time.monotonic()
        entries = self._searched(question) if question.text.strip() else self._newest(self._listing, question)
        return Listed(entries, *self._values)

    def _newest(self, listing: Listing, question: Question) -> list[Entry]:
        rows = listing.rows(
            root=question.root,
            kind=question.type,
            status=question.status,
            tool=question.tool,
            limit=MOST,
            asking=False,
        )
        return [Entry(row) for row in rows]

    def _searched(self, question: Question) -> list[Entry]:
        if self._search is None:
            self._search = Stores(self._folder).search()
        if time.monotonic() - self._searched_at > FRESH:
            self._search.refresh(self._progress)
            if self._search.more_to_do and self._searched_at < 0:
                self._later()
            self._searched_at = time.monotonic()
        filters = {"tool": question.tool, "type": question.type, "status": question.status, "workspace": question.root}
        found = self._search.search(typed(question.text), filters=filters, limit=FOUND, fresh=False)
        # What is found by meaning alone, and far behind the best, is no answer to words that somebody types.
        least = FAINT * max((item.score for item in found), default=0.0)
        clear = [item for item in found if item.score >= least or any(match.highlights for match in item.matches)]
        return [Entry(item.session, item.matches) for item in clear]


def typed(text: str) -> str:
    """The query of a text that is being typed: its last word may be only begun."""
    return f"{text}*" if text[-1:].isalnum() and text[-1:].isascii() and text.count('"') % 2 == 0 else text


class Reader:
    """Reads what a preview shows. Made and used in one thread."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._listing: Listing | None = None

    def read(self, wanted: Wanted) -> list[Message]:
        """The messages around the one that was found, or the newest."""
        if self._listing is None or wanted.row.root not in {**self._listing.sources, **self._listing.servers}:
            self._listing = Stores(self._folder).listing()
        store = self._listing.named_store(wanted.row.root).store
        if wanted.seq < 0:
            return store.tail(wanted.row.id, BEFORE + AFTER)
        found: list[Message] = []
        for message in store.read(wanted.row.id, max(0, wanted.seq - BEFORE)):
            if message.seq > wanted.seq + AFTER:
                break
            found.append(message)
        return found
