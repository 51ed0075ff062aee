"""The first page: the newest conversations, filters in the address, and the search."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple
from urllib.parse import urlencode

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from cortext.errors import UsageError
from cortext.model import clock
from cortext.safety import terminal
from cortext.services.capture import uncaptured
from cortext.services.library.finder import Entry, Listed, Question, split_tags
from cortext.services.library.listing import Row
from cortext.services.library.search import Match
from cortext.web.library import PAGE, Library
from cortext.web.live import mark_of
from cortext.web.pages import address, library, number, page, shown, stored
from cortext.wiring import tools

MOST_PROJECTS = 200  # in the filter
FOUND = 20  # results of a search at first, and more with each step: each is read from its conversation
MOST_FOUND = 100
MOST_QUERY = 500  # characters
MOST_SHOWN = 5_000  # conversations that "more" leads to; further ones are found by filters
FILTERS = ("tool", "project", "type", "status", "tag", "after", "before")
SEVERAL = ("tool", "type", "tag")  # may be given several times, or with several values
STATUSES = ("active", "paused", "completed", "interrupted", "idle", "damaged")
PERIODS = (
    ("", "any time"),
    ("today", "today"),
    ("7d", "7 days"),
    ("30d", "30 days"),
    ("3m", "3 months"),
    ("1y", "a year"),
)
REASONS = {
    "words": "words",
    "meaning": "meaning",
    "title": "its title",
    "date": "its date",
    "neighbour": "what is said beside it",
}
_KEY = re.compile(r"[\w.:-]{1,200}")


class Hit(NamedTuple):
    """A message that was found, as the list shows it."""

    link: str
    role: str
    snippet: Markup
    why: str


class Choice(NamedTuple):
    """A value of a filter as the page shows it, with its name for people."""

    value: str
    name: str
    chosen: bool


class Card(NamedTuple):
    """A conversation as the list shows it."""

    row: Row
    link: str
    title: str
    summary: str
    tool: str
    project: str
    place: str
    ago: str
    matches: list[Hit]


async def home(request: Request) -> Response:
    """Show the whole page."""
    if "token" in request.query_params:  # a reload of the printed address, in a browser that has the key already
        return RedirectResponse("/", 303)
    shown_state = mark_of(await library(request).state())  # before the list is read, so that no change is missed
    values = {**await _answer(request), **await _undo(request), "current": "home", "state": shown_state}
    return page(request, "home.html", values)


async def results(request: Request) -> Response:
    """Show only the list, for the script that replaces it while a person types."""
    return page(request, "results.html", await _answer(request))


async def _answer(request: Request) -> dict[str, Any]:
    asked = request.query_params
    text = asked.get("q", "")[:MOST_QUERY]
    filters = {name: ",".join(filter(None, asked.getlist(name)))[:MOST_QUERY] for name in SEVERAL}
    filters = {name: filters.get(name, asked.get(name, "")[:MOST_QUERY]) for name in FILTERS}
    services = library(request)
    filters |= await _as_stored(services, filters)
    question = Question(text, **filters)
    if question.status and question.status not in STATUSES:
        raise UsageError(f"unknown status {question.status!r}", hint=f"use one of {', '.join(STATUSES)}")
    split_tags(question.tag)  # raises if it is invalid
    step, most = (FOUND, MOST_FOUND) if text.strip() else (PAGE, MOST_SHOWN)
    limit = min(max(step, number(request, "show", step)), most)
    found = await services.find(question, limit + 1, request.is_disconnected)
    entries = found.entries if found is not None else []
    known = found or await services.find(Question(), 1)  # while the index is built, only the list knows the values
    given = {name: value for name, value in {"q": text, **filters}.items() if value}
    more = f"/?{urlencode({**given, 'show': limit + step})}" if limit < len(entries) and limit < most else ""
    ago = clock.Ago()
    return {
        "q": text,
        "filters": filters,
        "filtered": any(filters.values()),
        "waiting": services.progress or "Building the search index" if found is None else "",
        "again": f"/?{urlencode(given)}",
        "cards": [_card(services, entry, ago, searched=bool(text.strip())) for entry in entries[:limit]],
        "more": more,
        "total": found.total if found is not None else 0,
        "only_near": found is not None and found.only_near and bool(entries),
        "partly": found is not None and found.partly,
        "warnings": [shown(line) for line in services.warnings()],
        "alarms": [shown(alarm.text) for alarm in uncaptured.alarms()],
        "missing": found.missing if found is not None else "",
        "choices": _choices(known, filters) if known is not None else {},
        "several": SEVERAL,
        "periods": PERIODS,
        "statuses": STATUSES,
    }


async def _as_stored(services: Library, filters: Mapping[str, str]) -> dict[str, str]:
    """Return the filters whose values were shown with marks in place of signs that turn or hide text."""
    marked = [name for name in ("tool", "type", "project") if "<U+" in filters[name] or not filters[name].isascii()]
    known = await services.find(Question(), 1) if marked else None
    if known is None:
        return {}
    values = {"tool": known.tools, "type": known.types, "project": known.projects}
    found = {}
    for name in marked:
        given = filters[name].split(",") if name in SEVERAL else [filters[name]]
        meant = [value for each in given for value in stored(each, values[name])]
        found[name] = ",".join(meant if name in SEVERAL else meant[:1])
    return found


def _choices(found: Listed, filters: Mapping[str, str]) -> dict[str, list[Choice]]:
    """Return the values of the filters; among them those that are chosen now, even if no conversation has them."""
    names: dict[str, tuple[Sequence[str], Callable[[str], str]]] = {
        "tool": (found.tools, tools.title),
        "type": (found.types, str),
        "project": (found.projects[:MOST_PROJECTS], short_path),
        "tag": (found.tags, str),
    }
    choices = {}
    for name, (values, named) in names.items():
        chosen = list(filter(None, filters[name].split(",") if name in SEVERAL else [filters[name]]))
        offered = dict.fromkeys([*(value for value in chosen if value not in values), *values])
        choices[name] = [Choice(terminal.line(value), named(value), value in chosen) for value in offered]
    return choices


def short_path(path: str) -> str:
    """Return the last two folders of a path."""
    return "/".join(path.rstrip("/").split("/")[-2:])


def _card(services: Library, entry: Entry, ago: clock.Ago, *, searched: bool) -> Card:
    row = entry.row
    matches = [
        Hit(
            address(row, at=match.seq) + f"#m{match.seq}",
            match.role,
            highlighted(match),
            _why(match) if searched else "",
        )
        for match in entry.matches
    ]
    project = short_path(row.project) if row.project else services.label(row.root)
    summary = shown(row.summary)[:600].partition("\n")[0] if not matches else ""
    link = matches[0].link if matches else address(row)
    title, place = shown(row.name), shown(row.place)
    return Card(row, link, title, summary, tools.title(row.tool), project, place, ago(row.last_active), matches)


def _why(match: Match) -> str:
    """Return what a message was found by."""
    return ", ".join(text for reason, text in REASONS.items() if reason in match.why)


def highlighted(match: Match) -> Markup:
    """Return the snippet, which has been masked, with its words marked."""
    cuts = sorted({0, len(match.snippet)}.union(*match.highlights))
    parts = []
    for start, end in pairwise(cuts):
        is_word = any(begin <= start < stop for begin, stop in match.highlights)
        parts.append(Markup("<mark>{}</mark>" if is_word else "{}").format(terminal.block(match.snippet[start:end])))
    return Markup("").join(parts)


async def _undo(request: Request) -> dict[str, Any]:
    """Return what was just deleted, if the address says so and it is still in the trash."""
    key = request.query_params.get("trashed", "")
    if not _KEY.fullmatch(key):
        return {"undo": None}
    services = library(request)

    def trashed() -> object:
        for named_store in services.stores.all():
            for item in named_store.store.trash():
                if item.key == key:
                    return item
        return None

    return {"undo": await services.in_reader(trashed)}
