"""Searching and reading for the browser, in threads of their own; only the newest request counts."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from cortext.model.message import Message
from cortext.services.library.listing import Listing, Row
from cortext.services.library.search import Match, Search
from cortext.wiring.stores import Stores

Request = TypeVar("Request")
Result = TypeVar("Result")

MOST_LISTED = 500  # sessions without a query
MOST_FOUND = 60  # sessions with a query
BEFORE, AFTER = 4, 40  # messages of a preview around the match
WEAKEST = 0.5  # of the best score, for matches by meaning alone
STARRED, ARCHIVED = "starred", "archived"
FRESH = 5.0  # seconds for which the list counts as up to date


class Question(NamedTuple):
    """A query and filters."""

    text: str = ""
    tool: str = ""
    type: str = ""
    status: str = ""
    root: str = ""
    tag: str = ""  # a tag with #, or STARRED or ARCHIVED


class Entry(NamedTuple):
    """A session of the list, with its matches."""

    row: Row
    matches: Sequence[Match] = ()


class Listed(NamedTuple):
    """The answer to a question, and the values to filter by."""

    entries: list[Entry]
    tools: list[str]
    types: list[str]
    statuses: list[str]
    tags: list[str]


class Wanted(NamedTuple):
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


class Finder:
    """Lists and searches. Used in one thread only, because its databases belong to that thread."""

    def __init__(self, folder: str, progress: Callable[[str, int, int], None], later: Callable[[], None]) -> None:
        self._folder, self._progress, self._later = folder, progress, later
        self._listing: Listing | None = None
        self._search: Search | None = None
        self._listed_at = self._searched_at = -FRESH
        self._values: list[list[str]] = []

    def find(self, question: Question) -> Listed:
        """Return the sessions that match a question, newest or best first."""
        if self._listing is None:
            self._listing = Stores(self._folder).listing()
        if time.monotonic() - self._listed_at > FRESH:
            self._listing.refresh()
            found = self._listing.cells(("tool", "type", "status", "tags", "starred", "archived"))
            self._values = [sorted({cells[column] for cells in found} - {""}) for column in range(3)]
            self._values.append(tag_choices([cells[3:] for cells in found]))
            self._listed_at = time.monotonic()
        entries = self._searched(question) if question.text.strip() else self._newest(self._listing, question)
        return Listed(entries, *self._values)

    def _newest(self, listing: Listing, question: Question) -> list[Entry]:
        rows = listing.rows(
            root=question.root,
            kind=question.type,
            status=question.status,
            tool=question.tool,
            limit=MOST_LISTED,
            asking=False,
            tags=[question.tag[1:]] if question.tag.startswith("#") else (),
            starred=True if question.tag == STARRED else None,
            archived=question.tag == ARCHIVED,
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
        filters["tag" if question.tag.startswith("#") else "is"] = question.tag.removeprefix("#")
        found = self._search.search(typed(question.text), filters=filters, limit=MOST_FOUND, fresh=False)
        # While typing, matches by meaning alone that are far behind the best are noise.
        least = WEAKEST * max((item.score for item in found), default=0.0)
        relevant = [item for item in found if item.score >= least or any(match.highlights for match in item.matches)]
        return [Entry(item.session, item.matches) for item in relevant]


def tag_choices(found: Sequence[Sequence[Any]]) -> list[str]:
    """Return the values of the filter by tag for sessions, each with its columns tags, starred and archived."""
    flags = ((STARRED, any(cells[1] for cells in found)), (ARCHIVED, any(cells[2] for cells in found)))
    stored = {cells[0] for cells in found} - {""}
    return [
        *(name for name, some in flags if some),
        *sorted({f"#{tag}" for tags in stored for tag in tags.split()}),
    ]


def typed(text: str) -> str:
    """Return the query for a text that is being typed: its last word may be incomplete."""
    return f"{text}*" if text[-1:].isalnum() and text[-1:].isascii() and text.count('"') % 2 == 0 else text


class Reader:
    """Reads the messages of a preview. Used in one thread only."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._listing: Listing | None = None

    def read(self, wanted: Wanted) -> list[Message]:
        """Return the messages around the match, or the newest."""
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
