"""See: what was done when, by which model, in which tool, project and file, and what it cost.

The charts are SVG made here; colours come from the style sheet, numbers from a table. What takes long is read in the
background. The costs are the same sums as those of `cortext cost`.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, timedelta
from html import escape
from typing import Any, NamedTuple
from urllib.parse import urlencode

from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from cortext.errors import UsageError
from cortext.model import clock
from cortext.model.wording import amount
from cortext.safety import terminal
from cortext.services.cost.prices import UNKNOWN, money
from cortext.services.cost.report import CallPrice, CostReport, CostSum, Ledger, report
from cortext.services.library.activity import NO_TOOL, FileWork, Stats, Tally, Work, last_days, work
from cortext.web.home import short_path
from cortext.web.live import Background, Note
from cortext.web.pages import address, library, page, shown
from cortext.wiring import tools
from cortext.wiring.stores import Stores

CELL, GAP = 11, 3  # of the calendar
LEVELS = 4  # shades
LEFT, TOP = 30, 18  # of the calendar, for the names of days and months
WIDTH, HEIGHT = 720, 140  # of the bars by day
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class ChartBar(NamedTuple):
    """A name and its value, with a link."""

    name: str
    value: int
    link: str = ""


def level(value: int, most: int) -> int:
    """Return the shade of a value, from 0 for nothing to LEVELS."""
    return 0 if value <= 0 else min(LEVELS, 1 + (value * LEVELS - 1) // max(1, most))


def calendar(counts: Mapping[str, int], today: date, weeks: int = 53, unit: str = "messages") -> Markup:
    """Return a year as weeks of squares, the darker the more; each square has its date and count as a title."""
    start = today - timedelta(days=today.weekday() + 7 * (weeks - 1))
    shown = {day: value for day, value in counts.items() if day >= start.isoformat()}
    most = max(shown.values(), default=0)
    step = CELL + GAP
    parts = []
    month = 0
    for week in range(weeks):
        monday = start + timedelta(weeks=week)
        if monday.month != month and monday.day <= 7:
            parts.append(
                f'<text class="axis" x="{LEFT + week * step}" y="{TOP - 6}">{_MONTHS[monday.month - 1]}</text>'
            )
        month = monday.month
        for weekday in range(7):
            day = monday + timedelta(days=weekday)
            if day > today:
                break
            value = shown.get(day.isoformat(), 0)
            parts.append(
                f'<rect class="level-{level(value, most)}" x="{LEFT + week * step}" y="{TOP + weekday * step}" '
                f'width="{CELL}" height="{CELL}" rx="2">'
                f"<title>{day.isoformat()}: {value:,} {escape(unit)}</title></rect>"
            )
    for weekday, name in ((0, "Mon"), (2, "Wed"), (4, "Fri")):
        parts.append(f'<text class="axis" x="0" y="{TOP + weekday * step + CELL - 1}">{name}</text>')
    width, height = LEFT + weeks * step, TOP + 7 * step
    label = f"Activity by day: {sum(shown.values()):,} {unit} in a year"
    return _svg("calendar", width, height, label, parts)


def day_chart(bars: Sequence[ChartBar], unit: str) -> Markup:
    """Return columns by day."""
    most = max((bar.value for bar in bars), default=0)
    step = WIDTH / max(1, len(bars))
    parts = [f'<line class="base" x1="0" x2="{WIDTH}" y1="{HEIGHT - 20}" y2="{HEIGHT - 20}"/>']
    for index, bar in enumerate(bars):
        height = round(bar.value / most * (HEIGHT - 34), 1) if most else 0
        height = max(height, 1.5) if bar.value else 0
        parts.append(
            f'<rect class="bar" x="{index * step + step * 0.12:.1f}" y="{HEIGHT - 20 - height:.1f}" '
            f'width="{step * 0.76:.1f}" height="{height:.1f}" rx="1.5">'
            f"<title>{escape(terminal.line(bar.name))}: {bar.value:,} {escape(unit)}</title></rect>"
        )
    for index in sorted({0, len(bars) // 2, len(bars) - 1}) if bars else ():
        place = ("start", "middle", "end")[0 if index == 0 else 2 if index == len(bars) - 1 else 1]
        x = 0 if place == "start" else WIDTH if place == "end" else (index + 0.5) * step
        parts.append(
            f'<text class="axis" x="{x:.0f}" y="{HEIGHT - 5}" text-anchor="{place}">'
            f"{escape(terminal.line(bars[index].name))}</text>"
        )
    parts.append(f'<text class="axis" x="0" y="10">{most:,} {escape(unit)}</text>')
    return _svg("days", WIDTH, HEIGHT, f"{unit} by day, at most {most:,}", parts)


def share(value: int, most: int) -> Markup:
    """Return a horizontal bar for a row of a table."""
    width = max(1.0, round(100 * value / most, 1)) if value and most else 0
    rect = f'<rect class="bar" width="{width}" height="8" rx="2"/>'
    return Markup(f'<svg class="share" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">{rect}</svg>')


def _svg(name: str, width: float, height: float, label: str, parts: Sequence[str]) -> Markup:
    size = f'viewBox="0 0 {width:.0f} {height:.0f}"'
    return Markup(f'<svg class="chart {name}" {size} role="img" aria-label="{escape(label)}">{"".join(parts)}</svg>')


DAYS = 90
MOST_COSTS = 12  # rows of a table; the others are summed up
CENTS = 100
LABELS: Mapping[str, Callable[[str], str]] = {
    "model": str,
    "tool": lambda name: tools.title(name) or name,
    "project": short_path,
}


def costs(reports: Mapping[str, CostReport], prices_of: str) -> dict[str, Any]:
    """Return what the template shows of these reports, by day, model, tool, project and session."""
    by_day = {entry.name: entry for entry in reports["day"].entries}
    today = date.today()
    days = [(today - timedelta(days=back)).isoformat() for back in range(DAYS - 1, -1, -1)]
    bars = [ChartBar(day, round((by_day[day].cost or 0) * CENTS) if day in by_day else 0) for day in days]
    sums = reports["model"]
    dearest = [entry for entry in reports["session"].entries if entry.cost][:MOST_COSTS]
    return {
        "total": money(sums.total.cost, sums.total.unpriced) if sums.total.calls else "",
        "span": DAYS,
        "chart": day_chart(bars, "US cents"),
        "days": [(day, money(by_day[day].cost, by_day[day].unpriced)) for day in reversed(days) if day in by_day],
        "tables": [(f"{by.capitalize()}s", _rows(reports[by].entries, label)) for by, label in LABELS.items()],
        "dearest": [
            (address(entry.row), shown(entry.name), money(entry.cost, entry.unpriced))
            for entry in dearest
            if entry.row is not None
        ],
        "unpriced": list(sums.unpriced),
        "prices_of": prices_of,
    }


def _rows(entries: list[CostSum], label: Callable[[str], str]) -> list[tuple[str, str, str, Any]]:
    most = max((entry.cost or 0 for entry in entries), default=0)
    # One that is left out would only be replaced by a row that says so.
    listed = entries if len(entries) <= MOST_COSTS + 1 else [*entries[:MOST_COSTS], _others(entries[MOST_COSTS:])]
    return [
        (
            label(entry.name),
            money(entry.cost, entry.unpriced),
            f"{entry.tokens.total:,}",
            share(round((entry.cost or 0) * CENTS), round(most * CENTS)),
        )
        for entry in listed
    ]


def _others(entries: list[CostSum]) -> CostSum:
    """Return the sum of the entries that have no row of their own."""
    total = CostSum(name=amount(len(entries), "other"))
    for entry in entries:
        total = total.plus(entry.tokens, entry.cost, calls=entry.calls, unpriced=entry.unpriced)
    return total


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
    reports: Mapping[str, CostReport]
    prices_of: str  # the days of the price table


class TableRow(NamedTuple):
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
        # The page shows the tokens that the tools recorded.
        table.update(_with_tokens(table, {entry.name: entry.tokens.total for entry in reports[by].entries}))
    return Seen(done, reports, prices.days(reports["model"].models))


def _with_tokens(table: Mapping[str, Tally], recorded: Mapping[str, int]) -> dict[str, Tally]:
    """Return the counts with the tokens that were recorded; 0 if none were."""
    return {name: table.get(name, Tally())._replace(tokens=recorded.get(name, 0)) for name in [*table, *recorded]}


def _together(calls: Iterable[CallPrice]) -> list[CallPrice]:
    """Return the calls of one session, day, model and tool as one: five reports of a million calls would take long.

    The sums stay the same; only the number of calls, which the page does not show, does not.
    """
    found: dict[tuple[object, ...], CallPrice] = {}
    for priced in calls:
        row, call, tool, cost = priced
        key = (row.root, row.id, clock.day(call.at), call.model, tool, cost is None)
        known = found.get(key)
        if known is not None:
            tokens = known.call.tokens.plus(call.tokens)
            both = None if cost is None or known.cost is None else known.cost + cost
            priced = CallPrice(row, known.call._replace(tokens=tokens), tool, both)
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
            "first": clock.day(stats.first),
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
    bars = [ChartBar(day, value) for day, value in of_day.items()][-span:]
    unit = NAMES[measure]
    return {
        "tokens": seen.reports["day"].total.tokens.total,
        "calendar": calendar(of_day, date.fromtimestamp(now), unit=unit),
        "chart": day_chart(bars, unit),
        "days": [(day, tally) for day, tally in days.items() if tally.messages or tally.tokens][::-1],
        "files": _files(seen.work.files),
        "more_files": max(0, len(seen.work.files) - MOST_FILES),
        "costs": costs(seen.reports, seen.prices_of),
    }


def _tables(stats: Stats, seen: Seen | None, measure: str) -> list[tuple[str, list[TableRow]]]:
    """Return the tables by tool, project, model and type. Tokens are those that the tools recorded for their calls."""
    of_tools: dict[str, int] = {}
    of_projects: dict[str, int] = {}
    of_types: Counter[str] = Counter()
    if seen is not None:
        reported = seen.reports
        of_tools = {
            NO_TOOL if entry.name == UNKNOWN else entry.name: entry.tokens.total for entry in reported["tool"].entries
        }
        of_projects = {entry.name: entry.tokens.total for entry in reported["project"].entries if entry.name != UNKNOWN}
        for entry in reported["session"].entries:
            if entry.row is not None:
                of_types[entry.row.type or entry.row.kind] += entry.tokens.total
    by_tool, by_project = _with_tokens(stats.tools, of_tools), _with_tokens(stats.projects, of_projects)
    found = [
        ("Tools", _lines("tool", by_tool, measure, lambda name: tools.title(name) or name)),
        ("Projects", _lines("project", by_project, measure, short_path)),
        ("Models", _lines("", seen.work.models if seen is not None else {}, measure, str)),
        ("Types", _lines("type", _with_tokens(stats.types, of_types), measure, str)),
    ]
    return [(name, lines) for name, lines in found if lines]


def _lines(name: str, counted: Mapping[str, Tally], measure: str, label: Callable[[str], str]) -> list[TableRow]:
    """Return the rows of a table; `name` is the filter that each leads to, if there is one."""

    def size(tally: Tally) -> int:
        return int(getattr(tally, measure))

    ordered = sorted(counted.items(), key=lambda pair: (-size(pair[1]), -pair[1].messages, pair[0]))
    most = size(ordered[0][1]) if ordered else 0
    lines = [
        TableRow(label(key), f"/?{urlencode({name: key})}" if name else "", tally, share(size(tally), most))
        for key, tally in ordered
    ]
    if len(lines) <= MOST:
        return lines
    others = Tally(*map(sum, zip(*(line.tally for line in lines[MOST:]), strict=True)))
    return [*lines[:MOST], TableRow(amount(len(lines) - MOST, "other"), "", others, share(size(others), most))]


def _files(files: list[FileWork]) -> list[tuple[str, str, FileWork, Markup]]:
    """Return the rows of the table of files: the path, the search for it, the counts, and a bar."""
    home = os.path.expanduser("~")
    most = max((file.changed + file.read for file in files[:MOST_FILES]), default=0)
    found = []
    for file in files[:MOST_FILES]:
        path = f"~{file.path.removeprefix(home)}" if file.path.startswith(f"{home}/") else file.path
        bar = share(file.changed + file.read, most)
        clean = shown(path)
        found.append((clean, f"/?{urlencode({'q': short_path(path)})}" if clean == path else "", file, bar))
    return found
