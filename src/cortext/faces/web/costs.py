"""What conversations cost: the same sums as `cortext cost`, as a part of the activity page."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from cortext.faces.web import charts
from cortext.faces.web.home import short_path
from cortext.faces.web.pages import address, library, page, shown
from cortext.services.cost.report import Entry, Ledger, money, report
from cortext.wiring import tools

DAYS = 90
MOST = 12  # rows of a table
CENTS = 100


async def costs(request: Request) -> Response:
    """Send the charts and tables; the first time, every conversation is read for its token counts."""
    services = library(request)

    def made() -> dict[str, Any]:
        prices = services.stores.prices()
        listing = services.stores.listing()
        listing.refresh()
        calls = list(Ledger(listing, prices).calls())
        by_day = {entry.name: entry for entry in report(calls, "day").entries}
        today = datetime.now(UTC).date()
        days = [(today - timedelta(days=back)).isoformat() for back in range(DAYS - 1, -1, -1)]
        bars = [charts.Bar(day, round((by_day[day].cost or 0) * CENTS) if day in by_day else 0) for day in days]
        sums = report(calls, "model")
        labels = {"model": str, "tool": lambda name: tools.title(name) or name, "project": short_path}
        tables = [(f"{by.capitalize()}s", _rows(report(calls, by).entries, label)) for by, label in labels.items()]
        dearest = [entry for entry in report(calls, "session").entries if entry.cost][:MOST]
        return {
            "total": money(sums.total.cost, sums.total.unpriced) if sums.total.calls else "",
            "chart": charts.days(bars, "US cents"),
            "days": [(day, money(by_day[day].cost, by_day[day].unpriced)) for day in reversed(days) if day in by_day],
            "tables": tables,
            "dearest": [
                (address(entry.row), shown(entry.name), money(entry.cost, entry.unpriced))
                for entry in dearest
                if entry.row is not None
            ],
            "unpriced": list(sums.unpriced),
            "prices_of": prices.days(sums.models),
        }

    return page(request, "costs.html", await services.in_reader(made))


def _rows(entries: list[Entry], label: Any) -> list[tuple[str, str, str, Any]]:
    most = max((entry.cost or 0 for entry in entries), default=0)
    return [
        (
            label(entry.name),
            money(entry.cost, entry.unpriced),
            f"{entry.tokens.total:,}",
            charts.share(round((entry.cost or 0) * CENTS), round(most * CENTS)),
        )
        for entry in entries[:MOST]
    ]
