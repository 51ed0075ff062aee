"""Statistics over the list of sessions: counts by tool, type, status and project, with the days from `activity`."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from datetime import date, timedelta
from typing import NamedTuple

from cortext.services.library.listing import Row

Count = dict[str, object]

NO_TOOL = "(none)"


class Tally(NamedTuple):
    """The number of sessions, and of the messages and tokens in them."""

    sessions: int = 0
    messages: int = 0
    tokens: int = 0

    def plus(self, row: Row) -> Tally:
        """Return the counts with one more session."""
        return Tally(self.sessions + 1, self.messages + row.message_count, self.tokens + row.token_count)

    def as_dict(self) -> Count:
        """Return the counts for `--json`."""
        return {"sessions": self.sessions, "messages": self.messages, "tokens": self.tokens}


class Stats:
    """The counts of these sessions; `days` are those of what was said on each day (see `activity.Work`)."""

    def __init__(self, rows: Sequence[Row], days: Mapping[str, Tally] | None = None) -> None:
        self.days = days or {}
        self.total = Tally()
        self.tools: dict[str, Tally] = {}
        self.types: dict[str, Tally] = {}
        self.statuses: dict[str, Tally] = {}
        self.projects: dict[str, Tally] = {}  # by folder; conversations without one are not counted
        for row in rows:
            self.total = self.total.plus(row)
            # A session without an AI tool was held in one of our own programs.
            _count(self.tools, row.tool or {"spawn": "aur", "chat": "alfred"}.get(row.kind, NO_TOOL), row)
            _count(self.types, row.type or row.kind, row)
            _count(self.statuses, row.status, row)
            if row.project:
                _count(self.projects, row.project, row)
        self.first = min((row.created_at for row in rows if row.created_at), default="")
        self.last = max((row.last_active for row in rows), default="")

    def as_dict(self) -> Count:
        """Return the statistics for `--json`; the schema is stable."""
        return {
            **self.total.as_dict(),
            "first": self.first,
            "last_active": self.last,
            "days": [{"day": day, **tally.as_dict()} for day, tally in self.days.items()],
            **{
                name: [{"name": key, **tally.as_dict()} for key, tally in ranked(table)]
                for name, table in (("tools", self.tools), ("types", self.types), ("statuses", self.statuses))
            },
        }


def _count(table: dict[str, Tally], name: str, row: Row) -> None:
    table[name] = table.get(name, Tally()).plus(row)


def last_days(count: int, found: Mapping[str, Tally], now: float | None = None) -> dict[str, Tally]:
    """Return the last days until today, the oldest first, each with what was found."""
    today = date.fromtimestamp(time.time() if now is None else now)
    names = ((today - timedelta(days=back)).isoformat() for back in range(count - 1, -1, -1))
    return {name: found.get(name) or Tally() for name in names}


def ranked(table: dict[str, Tally]) -> list[tuple[str, Tally]]:
    """Return the entries, the ones with the most sessions first."""
    return sorted(table.items(), key=lambda pair: (-pair[1].sessions, pair[0]))
