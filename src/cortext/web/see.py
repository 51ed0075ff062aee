"""See: what was done when, by which model, in which tool, project and file, and what it cost.

What the list knows is shown at once. The days, models, files and costs come from the messages themselves, which are
read in the background.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import urlencode

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from cortext.errors import UsageError
from cortext.model.amounts import amount
from cortext.services.cost.report import DAY, UNKNOWN, Ledger, Priced, Report, report
from cortext.services.library.activity import FileWork, Work, work
from cortext.services.library.stats import NO_TOOL, Stats, Tally, last_days
from cortext.web import charts
from cortext.web.background import Background, Note
from cortext.web.costs import costs
from cortext.web.home import short_path
from cortext.web.pages import address, library, page, shown
from cortext.wiring import tools
from cortext.wiring.stores import Stores

MEASURES = ("messages", "tokens", "sessions")
NAMES = {"messages": "messages", "tokens": "tokens", "sessions": "conversations"}
SPANS = (30, 90, 365)
YEAR = 372  # days of the calendar, at most
LONGEST = 10
MOST = 100  # rows of a table; the others are summed up
MOST_FILES = 50
KEPT = 60  # seconds for which sums count as up to date, if the list has not changed
SUMS = ("day", "model", "tool", "project", "session")


class Seen(NamedTuple):
    """What is read from the messages of all conversations."""

    work: Work
    reports: Mapping[str, Report]
    prices_of: str  # the days of the price table


class Line(NamedTuple):
    """A row of a table."""

    label: str
    link: str
    tally: Tally
    share: Markup


def read(stores: Stores, note: Note) -> Seen:
    """Read the conversations that changed since the last time, and return the sums."""
    prices = stores.prices()
    listing = stores.listing()
    listing.refresh()
    done = work(listing, note)
    calls = _together(Ledger(listing, prices, note).calls())
    reports = {by: report(calls, by) for by in SUMS}
    for table, by in ((done.days, "day"), (done.models, "model")):
        for tally in table.values():
            tally.tokens = 0  # the page shows those that the tools recorded
        for entry in reports[by].entries:
            table.setdefault(entry.name, Tally()).tokens = entry.tokens.total
    return Seen(done, reports, prices.days(reports["model"].models))


def _together(calls: Iterable[Priced]) -> list[Priced]:
    """Return the calls of one session, day, model and tool as one: five reports of a million calls would take long.

    The sums stay the same; only the number of calls, which the page does not show, does not.
    """
    found: dict[tuple[object, ...], Priced] = {}
    for priced in calls:
        row, call, tool, cost = priced
        key = (row.root, row.id, call.at // DAY, call.model, tool, cost is None)
        known = found.get(key)
        if known is not None:
            tokens = known.call.tokens.plus(call.tokens)
            both = None if cost is None or known.cost is None else known.cost + cost
            priced = Priced(row, known.call._replace(tokens=tokens), tool, both)
        found[key] = priced
    return list(found.values())


async def see(request: Request) -> Response:
    """Show the statistics."""
    measure = request.query_params.get("by", "messages")
    span = request.query_params.get("days", "90")
    if measure not in MEASURES or span not in {str(each) for each in SPANS}:
        raise UsageError("unknown measure or number of days", hint="follow a link of the page")
    services = library(request)
    background: Background[Seen] = request.app.state.background
    rows = await services.rows()
    state = (await services.state(), int(time.time() // KEPT))
    seen, is_current = await background.get(state) if rows else (None, True)

    def made() -> dict[str, Any]:
        stats = Stats(rows)
        longest = sorted(rows, key=lambda row: (-row.message_count, row.id))[:LONGEST]
        return {
            "current": "see",
            "total": stats.total,
            "first": stats.first[:10],
            "measure": measure,
            "unit": NAMES[measure],
            "span": int(span),
            "measures": [(name, NAMES[name]) for name in MEASURES],
            "spans": SPANS,
            "waiting": "" if is_current else _progress(background),
            "seen": _shown(seen, measure, int(span)) if seen is not None else None,
            "tables": _tables(stats, seen, measure),
            "longest": [(address(row), shown(row.name), row, tools.title(row.tool)) for row in longest],
        }

    return page(request, "see.html", await services.in_reader(made))


async def old_costs(request: Request) -> Response:
    """The costs are a part of the page."""
    return RedirectResponse("/see#costs", 308)


def _progress(background: Background[Seen]) -> str:
    if not background.total:
        return "Conversations are being read"
    return f"Reading conversations: {background.done:,} of {background.total:,}"


def _shown(seen: Seen, measure: str, span: int) -> dict[str, Any]:
    """Return the parts of the page that come from the messages."""
    now = time.time()
    days = last_days(YEAR, seen.work.days, now)
    of_day = {day: int(getattr(tally, measure)) for day, tally in days.items()}
    bars = [charts.Bar(day, value) for day, value in of_day.items()][-span:]
    unit = NAMES[measure]
    return {
        "tokens": seen.reports["day"].total.tokens.total,
        "calendar": charts.calendar(of_day, datetime.fromtimestamp(now, UTC).date(), unit=unit),
        "chart": charts.days(bars, unit),
        "days": [(day, tally) for day, tally in days.items() if tally.messages or tally.tokens][::-1],
        "files": _files(seen.work.files),
        "more_files": max(0, len(seen.work.files) - MOST_FILES),
        "costs": costs(seen.reports, seen.prices_of),
    }


def _tables(stats: Stats, seen: Seen | None, measure: str) -> list[tuple[str, list[Line]]]:
    """Return the tables by tool, project, model and type. Tokens are those that the tools recorded for their calls."""
    for tally in (*stats.tools.values(), *stats.projects.values(), *stats.types.values()):
        tally.tokens = 0
    if seen is not None:
        for entry in seen.reports["tool"].entries:
            name = NO_TOOL if entry.name == UNKNOWN else entry.name
            stats.tools.setdefault(name, Tally()).tokens = entry.tokens.total
        for entry in seen.reports["project"].entries:
            if entry.name != UNKNOWN:
                stats.projects.setdefault(entry.name, Tally()).tokens = entry.tokens.total
        for entry in seen.reports["session"].entries:
            if entry.row is not None:
                kind = entry.row.type or entry.row.kind
                stats.types.setdefault(kind, Tally()).tokens += entry.tokens.total
    found = [
        ("Tools", _lines("tool", stats.tools, measure, lambda name: tools.title(name) or name)),
        ("Projects", _lines("project", stats.projects, measure, short_path)),
        ("Models", _lines("", seen.work.models if seen is not None else {}, measure, str)),
        ("Types", _lines("type", stats.types, measure, str)),
    ]
    return [(name, lines) for name, lines in found if lines]


def _lines(name: str, counted: Mapping[str, Tally], measure: str, label: Callable[[str], str]) -> list[Line]:
    """Return the rows of a table; `name` is the filter that each leads to, if there is one."""

    def size(tally: Tally) -> int:
        return int(getattr(tally, measure))

    ordered = sorted(counted.items(), key=lambda pair: (-size(pair[1]), -pair[1].messages, pair[0]))
    most = size(ordered[0][1]) if ordered else 0
    lines = [
        Line(label(key), f"/?{urlencode({name: key})}" if name else "", tally, charts.share(size(tally), most))
        for key, tally in ordered
    ]
    if len(lines) <= MOST:
        return lines
    others = Tally()
    for line in lines[MOST:]:
        for each in MEASURES:
            setattr(others, each, getattr(others, each) + getattr(line.tally, each))
    return [*lines[:MOST], Line(amount(len(lines) - MOST, "other"), "", others, charts.share(size(others), most))]


def _files(files: list[FileWork]) -> list[tuple[str, str, FileWork, Markup]]:
    """Return the rows of the table of files: the path, the search for it, the counts, and a bar."""
    home = os.path.expanduser("~")
    most = max((file.changed + file.read for file in files[:MOST_FILES]), default=0)
    found = []
    for file in files[:MOST_FILES]:
        path = f"~{file.path.removeprefix(home)}" if file.path.startswith(f"{home}/") else file.path
        bar = charts.share(file.changed + file.read, most)
        clean = shown(path)
        found.append((clean, f"/?{urlencode({'q': short_path(path)})}" if clean == path else "", file, bar))
    return found
