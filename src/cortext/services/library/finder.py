"""What a screen or a page asks while a person types: the newest sessions, or the best ones for a text, with filters."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from cortext.errors import UsageError
from cortext.index.search.words import FUNCTION_WORDS, STOP, WORD
from cortext.model.order import tag_name
from cortext.model.query import Query, check_filters
from cortext.services.library.listing import Listing, Row, placed
from cortext.services.library.search import Answer, Match, Search

MOST_LISTED = 500  # sessions without a query
MOST_FOUND = 60  # sessions with a query
WEAKEST = 0.5  # of the best score, for matches by meaning alone
STARRED, ARCHIVED = "starred", "archived"
FRESH = 5.0  # seconds for which the list counts as up to date
VALUES_SECONDS = 60.0  # for which the values to filter by are kept that sessions on a server have
ASK_AGAIN = 15.0  # seconds after which a server is asked again that did not answer


class Question(NamedTuple):
    """A query and filters. `after` and `before` are as a person writes them: 7d, yesterday, 2026-11-15.

    Several tools or types, of which one must be it, are separated by commas; so are tags, all of which must be there.
    """

    text: str = ""
    tool: str = ""
    type: str = ""
    status: str = ""
    root: str = ""
    tag: str = ""  # tags with #, STARRED, ARCHIVED
    project: str = ""
    after: str = ""
    before: str = ""


class Entry(NamedTuple):
    """A session of the list, with its matches."""

    row: Row
    matches: Sequence[Match] = ()


class Listed(NamedTuple):
    """The answer to a question, and the values to filter by. `total` counts the sessions of the list or the archive."""

    entries: list[Entry]
    tools: list[str]
    types: list[str]
    statuses: list[str]
    tags: list[str]
    projects: Sequence[str] = ()
    total: int = 0
    only_near: bool = False  # no message has the words, or too few of them: the results are only near in meaning
    missing: str = ""  # why sessions may be missing: a sentence
    partly: bool = False  # if `only_near`: some of the words were found


class Finder:
    """Lists and searches, for one reader.

    A `quick` one looks only at what is likely to have changed: for callers that let another one look at everything.
    Without `any_project`, only folders that conversations were held in can be asked for: for callers whose questions
    must never reach the file system.
    """

    def __init__(
        self,
        listing: Callable[[], Listing],
        search: Callable[[], Search],
        progress: Callable[[str, int, int], None] | None,
        later: Callable[[], None],
        *,
        fresh: float = FRESH,
        quick: bool = False,
        any_project: bool = False,
    ) -> None:
        self._make_listing, self._make_search = listing, search
        self._progress, self._later, self._fresh, self._quick = progress, later, fresh, quick
        self._any_project = any_project
        self._listing: Listing | None = None
        self._search: Search | None = None
        self._listed_at = -math.inf
        self._searched_at = -math.inf
        self._has_searched = False
        self._values: list[list[str]] = []
        self._values_of: tuple[str, int] = ("", -1)
        self._values_at = -math.inf
        self._asked_at = -math.inf
        self._totals = (0, 0)  # sessions in the list, and in the archive

    @property
    def listing(self) -> Listing:
        """The list of sessions, up to date."""
        is_new = self._listing is None
        if self._listing is None:
            self._listing = self._make_listing().reachable()
        if time.monotonic() - self._listed_at > self._fresh:
            self._listing.refresh(quick=self._quick and not is_new)
            self._listed_at = time.monotonic()
        return self._listing

    def renew(self) -> None:
        """Open the stores again before the next answer: there may be others by now."""
        self._listing = self._search = None
        self.expire()

    def expire(self) -> None:
        """Look at the stores again before the next answer: something was changed."""
        self._listed_at = self._searched_at = -math.inf

    def find(self, question: Question, limit: int = 0) -> Listed:
        """Return the sessions that match a question, newest or best first. Raises UsageError for an invalid filter."""
        listing = self.listing
        if time.monotonic() - self._asked_at > ASK_AGAIN:
            for each in self._listings():
                each.ask_again()
            self._asked_at = time.monotonic()
        self._note_values(listing)
        if question.project and not self._any_project and question.project not in self._values[4]:
            raise UsageError(f"unknown project {question.project!r}", hint="choose one from the list")
        if question.text.strip():
            entries, answer = self._searched(question, limit or MOST_FOUND)
        else:
            entries, answer = self._newest(listing, question, limit or MOST_LISTED), Answer()
        tools, types, statuses, tags, projects = self._values
        total = self._totals[ARCHIVED in split_tags(question.tag)[1]]
        away = {address: error for each in self._listings() for address, error in each.away.items()}
        missing = answer._replace(away=away).incomplete
        only_near, partly = answer.is_only_near, answer.has_few
        return Listed(entries, tools, types, statuses, tags, projects, total, only_near, missing, partly)

    def _listings(self) -> list[Listing]:
        searched = [self._search.listing] if self._search is not None else []
        return [*([self._listing] if self._listing is not None else []), *searched]

    def _note_values(self, listing: Listing) -> None:
        """Collect the values to filter by, if the list has changed."""
        state = listing.index.counter()
        is_recent = not listing.servers or time.monotonic() - self._values_at < VALUES_SECONDS
        if state == self._values_of and is_recent:
            return
        found = listing.cells(("tool", "type", "status", "project", "tags", "starred", "archived"))
        self._values = [sorted({cells[column] for cells in found} - {""}) for column in range(3)]
        self._values.append(tag_choices([cells[4:] for cells in found]))
        used = Counter(cells[3] for cells in found if cells[3])
        self._values.append([project for project, _ in used.most_common()])
        listed = [bool(archived) for (archived,) in listing.cells(("archived",), Query(own_commands=False))]
        self._totals = (listed.count(False), listed.count(True))
        self._values_of, self._values_at = state, time.monotonic()

    def _newest(self, listing: Listing, question: Question, limit: int) -> list[Entry]:
        filters, flags = _filters(question)
        if ARCHIVED not in flags:
            filters["is"] = ",".join([*flags, "unarchived"])
        roots = [question.root] if question.root else None
        rows = listing.rows(Query(filters=filters, roots=roots, limit=limit, own_commands=False))
        return [Entry(row) for row in placed(rows)]

    def _searched(self, question: Question, limit: int) -> tuple[list[Entry], Answer]:
        if self._search is None:
            self._search = self._make_search().reachable()
        if time.monotonic() - self._searched_at > max(FRESH, self._fresh):
            updated = self._search.refresh(self._progress, quick=self._quick and self._has_searched)
            if updated.has_more and not self._has_searched:
                self._later()
            self._searched_at, self._has_searched = time.monotonic(), True
        filters, _ = _filters(question)
        check_filters(filters)
        roots = {"workspace": question.root} if question.root else {}
        answer = self._search.search(Query(typed(question.text), filters | roots, limit=limit), fresh=False)
        found = answer.hits
        # While typing, matches by meaning alone that are far behind the best are noise.
        least = WEAKEST * max((item.score for item in found), default=0.0)
        relevant = [item for item in found if item.score >= least or any(match.highlights for match in item.matches)]
        return [Entry(item.session, item.matches) for item in relevant], answer


def _filters(question: Question) -> tuple[dict[str, str], list[str]]:
    """Return the filters of a question by name, and which of STARRED and ARCHIVED it asks for."""
    names = ("tool", "type", "status", "project", "after", "before")
    tags, flags = split_tags(question.tag)
    filters = {name: getattr(question, name) for name in names} | {"tag": ",".join(tags), "is": ",".join(flags)}
    return {name: value for name, value in filters.items() if value}, flags


def split_tags(text: str) -> tuple[list[str], list[str]]:
    """Return the tags of a filter, and which of STARRED and ARCHIVED it asks for. Raises UsageError if it is none."""
    tags, flags = [], []
    for piece in filter(None, text.split(",")):
        if piece in (STARRED, ARCHIVED):
            flags.append(piece)
        elif piece.startswith("#"):
            tags.append(tag_name(piece))
        else:
            raise UsageError(f"unknown tag {piece[:60]!r}", hint="use #name, starred or archived")
    return tags, flags


def tag_choices(found: Sequence[Sequence[Any]]) -> list[str]:
    """Return the values of the filter by tag for sessions, each with its columns tags, starred and archived."""
    flags = ((STARRED, any(cells[1] for cells in found)), (ARCHIVED, any(cells[2] for cells in found)))
    stored = {cells[0] for cells in found} - {""}
    return [
        *(name for name, some in flags if some),
        *sorted({f"#{tag}" for tags in stored for tag in tags.split()}),
    ]


def typed(text: str) -> str:
    """Return the query for a text that is being typed: its last word may be incomplete. A function word never is."""
    if not text[-1:].isalnum() or not text[-1:].isascii() or text.count('"') % 2:
        return text
    last = WORD.findall(text)[-1].lower()
    return text if last in STOP or last in FUNCTION_WORDS else f"{text}*"
