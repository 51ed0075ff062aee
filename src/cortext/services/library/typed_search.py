"""What a screen or a page asks while a person types: the newest sessions, or the best ones for a text, with filters."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from msgspec.structs import replace

from cortext.errors import UsageError
from cortext.index.search import words
from cortext.model.order import tag_name
from cortext.model.query import AMONG, ARCHIVED, FILTERS, STARRED, WORD, Query, check_filters
from cortext.services.library.listing import Listing, in_place
from cortext.services.library.search import Search
from cortext.services.library.sources import Answer, Match

MOST_LISTED = 500  # sessions without a query
MOST_FOUND = 60  # sessions with a query
WEAKEST = 0.5  # of the best score, for matches by meaning alone
FRESH = 5.0  # seconds for which the list counts as up to date
ASK_AGAIN = 15.0  # seconds after which a server is asked again that did not answer


class TypedAnswer(NamedTuple):
    """The answer to a query, and the values that filters can have. `total` counts the list, or the archive."""

    answer: Answer
    values: Mapping[str, Sequence[str]]  # by the name of the filter
    total: int = 0


class TypedSearch:
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
        self._values: dict[str, list[str]] = {}
        self._values_of: tuple[object, ...] = ()
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

    def find(self, query: Query) -> TypedAnswer:
        """Return the sessions that a query chooses, newest or best first. Raises UsageError for an invalid filter.

        The text may be incomplete; of the stores, only the first counts in a search.
        """
        listing = self.listing
        if time.monotonic() - self._asked_at > ASK_AGAIN:
            for each in self._listings():
                each.ask_again()
            self._asked_at = time.monotonic()
        self._note_values(listing)
        check_filters(query.filters)
        for name, filter in FILTERS.items():
            value = query.filters.get(name, "")
            if filter.compare == AMONG and value and not self._any_project and value not in self._values[name]:
                raise UsageError(f"unknown {name} {value!r}", hint="choose one from the list")
        is_archive = ARCHIVED in query.filters.get("is", "").split(",")
        answer = self._searched(query) if query.text.strip() else self._newest(listing, query, is_archive=is_archive)
        away = {address: error for each in self._listings() for address, error in each.away.items()}
        return TypedAnswer(answer._replace(away=away), self._values, self._totals[is_archive])

    def _listings(self) -> list[Listing]:
        searched = [self._search.listing] if self._search is not None else []
        return [*([self._listing] if self._listing is not None else []), *searched]

    def _note_values(self, listing: Listing) -> None:
        """Collect the values to filter by, if the list has changed."""
        state = listing.state(exact=False)
        if state == self._values_of:
            return
        offered = {name: filter for name, filter in FILTERS.items() if filter.is_offered}
        columns = list(dict.fromkeys(["tags", STARRED, ARCHIVED, *(filter.column for filter in offered.values())]))
        found = listing.cells(columns)
        for name, filter in offered.items():
            column = columns.index(filter.column)
            values = [cells[column] for cells in found if cells[column]]
            if filter.compare == WORD:
                self._values[name] = tag_choices([cells[:3] for cells in found])
            elif filter.compare == AMONG:  # the most used first
                self._values[name] = [value for value, _ in Counter(values).most_common()]
            else:
                self._values[name] = sorted(set(values))
        listed = [bool(archived) for (archived,) in listing.cells((ARCHIVED,), Query(own_commands=False))]
        self._totals = (listed.count(False), listed.count(True))
        self._values_of = state

    def _newest(self, listing: Listing, query: Query, *, is_archive: bool) -> Answer:
        flags = query.filters.get("is", "")
        filters = {**query.filters, "is": flags if is_archive else f"{flags},unarchived"}
        return in_place(
            listing.answer(replace(query, filters=filters, limit=query.limit or MOST_LISTED, own_commands=False))
        )

    def _searched(self, query: Query) -> Answer:
        if self._search is None:
            self._search = self._make_search().reachable()
        if time.monotonic() - self._searched_at > max(FRESH, self._fresh):
            updated = self._search.refresh(self._progress, quick=self._quick and self._has_searched)
            if updated.has_more and not self._has_searched:
                self._later()
            self._searched_at, self._has_searched = time.monotonic(), True
        stores = {"workspace": query.roots[0]} if query.roots else {}
        query = Query(typed(query.text), {**query.filters, **stores}, limit=query.limit or MOST_FOUND)
        answer = self._search.search(query, fresh=False)
        # While typing, matches by meaning alone that are far behind the best are noise.
        least = WEAKEST * max((hit.score for hit in answer.hits), default=0.0)
        hits = [hit for hit in answer.hits if hit.score >= least or any(map(_is_sure, hit.matches))]
        return answer._replace(hits=hits)


def _is_sure(match: Match) -> bool:
    """Whether a match was found by words, or by nothing but a time or other filters."""
    return bool(match.highlights) or match.why in ((), ("date",))


def order_filters(text: str) -> dict[str, str]:
    """Return the filters `tag` and `is` of "#billing,starred". Raises UsageError if it is none of `tag_choices`."""
    tags, flags = [], []
    for piece in filter(None, text.split(",")):
        if piece in (STARRED, ARCHIVED):
            flags.append(piece)
        elif piece.startswith("#"):
            tags.append(tag_name(piece))
        else:
            raise UsageError(f"unknown tag {piece[:60]!r}", hint="use #name, starred or archived")
    return {"tag": ",".join(tags), "is": ",".join(flags)}


def order_text(filters: Mapping[str, str]) -> str:
    """Return the filters `tag` and `is` as one text; the inverse of `order_filters`."""
    tags = [f"#{tag}" for tag in filters.get("tag", "").split(",") if tag]
    return ",".join([*tags, *filter(None, filters.get("is", "").split(","))])


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
    last = words.WORD.findall(text)[-1].lower()
    return text if last in words.STOP or last in words.FUNCTION_WORDS else f"{text}*"
