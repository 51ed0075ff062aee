"""The first page: the newest conversations, filters in the address, and the search."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple
from urllib.parse import urlencode

from markupsafe import Markup
from starlette.datastructures import QueryParams
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from cortext.model import clock
from cortext.model.query import ALL, AMONG, ANY, FILTERS, WORD, Query, check_choice
from cortext.model.session import LONGEST_SHOWN
from cortext.safety import terminal
from cortext.services.capture import uncaptured
from cortext.services.library.listing import Row
from cortext.services.library.search import lacking
from cortext.services.library.sources import Answer, Match, SessionHit
from cortext.services.library.typed_search import TypedAnswer, order_filters
from cortext.web.library import PAGE, PageLibrary
from cortext.web.live import mark_of
from cortext.web.pages import address, library, number, page, shown, stored
from cortext.wiring import tools

MOST_PROJECTS = 200  # in the filter
FOUND = 20  # results of a search at first, and more with each step: each is read from its conversation
MOST_FOUND = 100
MOST_QUERY = 500  # characters
MOST_SHOWN = 5_000  # conversations that "more" leads to; further ones are found by filters
WITHOUT = ("workspace", "is")  # the first would reach the file system, the second is chosen among the tags
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
MENUS = ("tool", "project", "type", "tag", "status")  # the first ones, in this order
_KEY = re.compile(r"[\w.:-]{1,200}")


class CardMatch(NamedTuple):
    """A message that was found, as the list shows it."""

    link: str
    role: str
    snippet: Markup
    why: str


class MenuValue(NamedTuple):
    """A value of a filter as the page shows it, with its name for people."""

    value: str
    name: str
    chosen: bool


class Menu(NamedTuple):
    """A filter as the page shows it; `rule` says which of several values must hold."""

    name: str
    label: str
    every: str
    rule: str
    choices: list[MenuValue]


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
    matches: list[CardMatch]


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
    filters = filters_of(asked)
    services = library(request)
    filters |= await _as_stored(services, filters)
    for name, value in filters.items():
        check_choice(name, value)
    step, most = (FOUND, MOST_FOUND) if text.strip() else (PAGE, MOST_SHOWN)
    limit = min(max(step, number(request, "show", step)), most)
    chosen = {name: value for name, value in {**filters, **order_filters(filters["tag"])}.items() if value}
    found = await services.find(Query(text, chosen, limit=limit + 1), request.is_disconnected)
    answer = found.answer if found is not None else Answer()
    known = found or await services.find(Query(limit=1))  # while the index is built, only the list knows the values
    given = {name: value for name, value in {"q": text, **filters}.items() if value}
    more = f"/?{urlencode({**given, 'show': limit + step})}" if limit < len(answer.hits) and limit < most else ""
    ago = clock.Ago()
    cards = list(zip(answer.hits, answer.names, strict=True))[:limit]
    return {
        "q": text,
        "filters": filters,
        "filtered": any(filters.values()),
        "waiting": services.progress or "Building the search index" if found is None else "",
        "again": f"/?{urlencode(given)}",
        "cards": [_card(services, *named, ago, searched=bool(text.strip())) for named in cards],
        "more": more,
        "total": found.total if found is not None else 0,
        "lacking": shown(lacking(answer, text)),
        "only_near": answer.is_only_near,
        "warnings": [shown(line) for line in services.warnings()],
        "alarms": [shown(alarm.text) for alarm in uncaptured.alarms()],
        "missing": answer.incomplete,
        "menus": _menus(known, filters) if known is not None else [],
        "periods": PERIODS,
        "kept": [(name, value) for name, value in filters.items() if value and not _is_drawn(name)],
    }


def filters_of(asked: QueryParams) -> dict[str, str]:
    """Return the filters in the address, by name; several values may be repeated, or separated by commas."""
    given = {name: [value for value in asked.getlist(name) if value] for name in FILTERS if name not in WITHOUT}
    given = {name: values if FILTERS[name].several else values[-1:] for name, values in given.items()}
    return {name: ",".join(values)[:MOST_QUERY] for name, values in given.items()}


def _is_drawn(name: str) -> bool:
    """Whether the page has a menu for a filter; the others are kept as they stand in the address."""
    return FILTERS[name].is_offered or name == "after"


async def _as_stored(services: PageLibrary, filters: Mapping[str, str]) -> dict[str, str]:
    """Return the filters whose values were shown with marks in place of signs that turn or hide text."""
    offered = [name for name in filters if FILTERS[name].is_offered and FILTERS[name].compare != WORD]
    marked = [name for name in offered if "<U+" in filters[name] or not filters[name].isascii()]
    known = await services.find(Query(limit=1)) if marked else None
    if known is None:
        return {}
    found = {}
    for name in marked:
        given = filters[name].split(",") if FILTERS[name].several else [filters[name]]
        meant = [value for each in given for value in stored(each, known.values[name])]
        found[name] = ",".join(meant if FILTERS[name].several else meant[:1])
    return found


def _menus(found: TypedAnswer, filters: Mapping[str, str]) -> list[Menu]:
    """Return the filters with their values; among them those that are chosen now, even if no conversation has them."""
    return [_menu(name, found.values[name], filters[name]) for name in dict.fromkeys((*MENUS, *found.values))]


def _menu(name: str, values: Sequence[str], given: str) -> Menu:
    filter, named = FILTERS[name], NAMES_OF.get(name, str)
    chosen = [value for value in (given.split(",") if filter.several else [given]) if value]
    values = filter.choices or (values[:MOST_PROJECTS] if filter.compare == AMONG else values)
    offered = dict.fromkeys([*(value for value in chosen if value not in values), *values])
    choices = [MenuValue(terminal.line(value), named(value), value in chosen) for value in offered]
    rule = {ANY: f"of any of these {name}s", ALL: f"with all of these {name}s"}.get(filter.several, "")
    return Menu(name, name.capitalize(), f"every {name}", rule, choices)


def short_path(path: str) -> str:
    """Return the last two folders of a path."""
    return "/".join(path.rstrip("/").split("/")[-2:])


def _card(services: PageLibrary, hit: SessionHit, name: str, ago: clock.Ago, *, searched: bool) -> Card:
    row = hit.session
    matches = [
        CardMatch(
            address(row, at=match.seq) + f"#m{match.seq}",
            match.role,
            highlighted(match),
            _why(match) if searched else "",
        )
        for match in hit.matches
    ]
    project = short_path(row.project) if row.project else services.label(row.root)
    summary = " ".join(shown(row.summary)[:LONGEST_SHOWN].split()) if not matches else ""
    link = matches[0].link if matches else address(row)
    title, place = shown(name), shown(row.place)
    return Card(row, link, title, summary, tools.title(row.tool), project, place, ago(row.last_active), matches)


NAMES_OF: Mapping[str, Callable[[str], str]] = {"tool": tools.title, "project": short_path}  # for people


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
