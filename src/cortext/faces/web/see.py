"""See: what was done when, in which tool and project, as charts with the numbers behind them."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

from starlette.requests import Request
from starlette.responses import Response

from cortext.errors import UsageError
from cortext.faces.web import charts
from cortext.faces.web.home import short_path
from cortext.faces.web.pages import address, library, page, shown
from cortext.services.library.stats import Stats, Tally, ranked
from cortext.wiring import tools

MEASURES = ("messages", "tokens", "sessions")
NAMES = {"messages": "messages", "tokens": "tokens", "sessions": "conversations"}
SPANS = (30, 90, 365)
LONGEST = 10
MOST_PROJECTS = 15


async def see(request: Request) -> Response:
    """Show the statistics."""
    measure = request.query_params.get("by", "messages")
    span = request.query_params.get("days", "90")
    if measure not in MEASURES or span not in {str(each) for each in SPANS}:
        raise UsageError("unknown measure or number of days", hint="follow a link of the page")
    services = library(request)
    rows = await services.rows()

    def made() -> dict[str, Any]:
        now = time.time()
        stats = Stats(rows, 372, now)
        of_day = {day: getattr(tally, measure) for day, tally in stats.days.items()}
        bars = [charts.Bar(day, value) for day, value in of_day.items()][-int(span) :]
        unit = NAMES[measure]
        longest = sorted(rows, key=lambda row: (-row.message_count, row.id))[:LONGEST]
        by_project = sorted(stats.projects.items(), key=lambda pair: -getattr(pair[1], measure))[:MOST_PROJECTS]
        return {
            "current": "see",
            "total": stats.total,
            "first": stats.first[:10],
            "measure": measure,
            "unit": unit,
            "span": int(span),
            "measures": [(name, NAMES[name]) for name in MEASURES],
            "spans": SPANS,
            "calendar": charts.calendar(of_day, datetime.fromtimestamp(now, UTC).date(), unit=unit),
            "chart": charts.days(bars, unit),
            "days": [(day, stats.days[day]) for day, value in of_day.items() if value][::-1][:60],
            "tables": [
                ("Tools", _table("tool", ranked(stats.tools), measure, tools.title)),
                ("Projects", _table("project", by_project, measure, short_path)),
                ("Types", _table("type", ranked(stats.types), measure, str)),
            ],
            "longest": [(address(row), shown(row.name), row, tools.title(row.tool)) for row in longest],
        }

    return page(request, "see.html", await services.in_reader(made))


def _table(
    name: str, counted: list[tuple[str, Tally]], measure: str, label: Callable[[str], str]
) -> list[tuple[str, str, Tally, Any]]:
    """Return the rows of a table: name, filter, counts and a bar."""

    def size(tally: Tally) -> int:
        return int(getattr(tally, measure))

    most = max((size(tally) for _, tally in counted), default=0)
    ordered = sorted(counted, key=lambda pair: -size(pair[1]))
    return [(label(key), urlencode({name: key}), each, charts.share(size(each), most)) for key, each in ordered]
