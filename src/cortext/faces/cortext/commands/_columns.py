"""The columns that `cortext list --columns` can show."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from cortext.errors import UsageError
from cortext.faces.terminal.style import columns
from cortext.faces.terminal.table import Column, fitted_table, table
from cortext.model import clock
from cortext.services.library.listing import Listing, Row

if TYPE_CHECKING:
    from cortext.services.cost.prices import Prices

COST, CALLS = "cost", "calls"
_PLAIN: dict[str, Callable[[Row], str]] = {
    "id": lambda row: row.id,
    "title": lambda row: row.shown_title or row.id,
    "type": lambda row: row.shown_type,
    "tool": lambda row: row.tool or "-",
    "agent": lambda row: row.agent or "-",
    "status": lambda row: row.status,
    "active": lambda row: clock.ago(row.last_active),
    "created": lambda row: row.created_at[:10],
    "messages": lambda row: str(row.message_count),
    "tokens": lambda row: str(row.token_count),
    "project": lambda row: row.project or "-",
    "star": lambda row: "★" if row.starred else "-",
    "tags": lambda row: shown_tags(row.tags) or "-",
    "place": lambda row: row.place or "-",
}
NAMES = (*_PLAIN, "workspace", CALLS, COST)
_NUMBERS = ("messages", "tokens", CALLS, COST)


def chosen_columns(text: str) -> list[str]:
    """Return the names of the columns in an option; UsageError for one that does not exist."""
    names = [name.strip().lower() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in NAMES:
            raise UsageError(f"unknown column {name!r}", hint=f"use {', '.join(NAMES)}")
    return list(dict.fromkeys(names))


def own_table(rows: Sequence[Row], names: Sequence[str], listing: Listing, prices: Callable[[], Prices]) -> str:
    """Return the sessions as a table with these columns."""
    cells = {name: [_PLAIN[name](row) for row in rows] for name in names if name in _PLAIN}
    if "workspace" in names:
        cells["workspace"] = [listing.labels.get(row.root, row.root) for row in rows]
    if COST in names or CALLS in names:
        cells |= _costs(rows, listing, prices())
    screen = columns()
    if not screen:
        return table([name.upper() for name in names], list(zip(*(cells[name] for name in names), strict=True)))
    made = [Column(name.upper(), cells[name], right=name in _NUMBERS) for name in names]
    stretched = names.index("title") if "title" in names else 0
    return fitted_table(made, stretched, screen)[0]


def shown_tags(tags: str) -> str:
    """Return tags for a table."""
    return " ".join(f"#{tag}" for tag in tags.split())


def _costs(rows: Sequence[Row], listing: Listing, prices: Prices) -> dict[str, list[str]]:
    """Return the columns with what the sessions cost; a session without recorded tokens has a dash."""
    from cortext.faces.cortext.commands.figures import read_ledger
    from cortext.services.cost.report import money

    sums = read_ledger(listing, prices).by_session(rows)
    entries = [sums.get((row.root, row.id)) for row in rows]
    return {
        COST: [money(entry.cost, entry.unpriced) if entry else "-" for entry in entries],
        CALLS: [str(entry.calls) if entry else "-" for entry in entries],
    }
