"""What conversations cost: the same sums as `cortext cost`, as a part of the activity page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from cortext.model.amounts import amount
from cortext.services.cost.report import Entry, Report, money
from cortext.web import charts
from cortext.web.home import short_path
from cortext.web.pages import address, shown
from cortext.wiring import tools

DAYS = 90
MOST = 12  # rows of a table; the others are summed up
CENTS = 100
LABELS: Mapping[str, Callable[[str], str]] = {
    "model": str,
    "tool": lambda name: tools.title(name) or name,
    "project": short_path,
}


def costs(reports: Mapping[str, Report], prices_of: str) -> dict[str, Any]:
    """Return what the template shows of these reports, by day, model, tool, project and session."""
    by_day = {entry.name: entry for entry in reports["day"].entries}
    today = datetime.now(UTC).date()
    days = [(today - timedelta(days=back)).isoformat() for back in range(DAYS - 1, -1, -1)]
    bars = [charts.Bar(day, round((by_day[day].cost or 0) * CENTS) if day in by_day else 0) for day in days]
    sums = reports["model"]
    dearest = [entry for entry in reports["session"].entries if entry.cost][:MOST]
    return {
        "total": money(sums.total.cost, sums.total.unpriced) if sums.total.calls else "",
        "span": DAYS,
        "chart": charts.days(bars, "US cents"),
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


def _rows(entries: list[Entry], label: Callable[[str], str]) -> list[tuple[str, str, str, Any]]:
    most = max((entry.cost or 0 for entry in entries), default=0)
    # One that is left out would only be replaced by a row that says so.
    listed = entries if len(entries) <= MOST + 1 else [*entries[:MOST], _others(entries[MOST:])]
    return [
        (
            label(entry.name),
            money(entry.cost, entry.unpriced),
            f"{entry.tokens.total:,}",
            charts.share(round((entry.cost or 0) * CENTS), round(most * CENTS)),
        )
        for entry in listed
    ]


def _others(entries: list[Entry]) -> Entry:
    """Return the sum of the entries that have no row of their own."""
    total = Entry(name=amount(len(entries), "other"))
    for entry in entries:
        total.calls += entry.calls
        total.tokens = total.tokens.plus(entry.tokens)
        total.unpriced += entry.unpriced
        if entry.cost is not None:
            total.cost = (total.cost or 0.0) + entry.cost
    return total
