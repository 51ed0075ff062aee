"""Statistics over the list of sessions: counts by tool, type, status and project, with the days from `activity`."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping

from cortext.model import clock
from cortext.services.library.listing import Row

Count = dict[str, object]

DAY = 86_400
NO_TOOL = "(none)"


class Tally:
    """The number of sessions, and of the messages and tokens in them."""

    __slots__ = ("messages", "sessions", "tokens")

    def __init__(self) -> None:
        self.sessions = self.messages = self.tokens = 0

    def add(self, row: Row) -> None:
        """Count one more session."""
        self.sessions += 1
        self.messages += row.message_count
        self.tokens += row.token_count

    def as_dict(self) -> Count:
        """Return the counts for `--json`."""
        return {"sessions": self.sessions, "messages": self.messages, "tokens": self.tokens}


class Stats:
    """The counts of these sessions; `days` are those of what was said on each day (see `activity.Work`)."""

    def __init__(self, rows: Iterable[Row], days: Mapping[str, Tally] | None = None) -> None:
        self.days = days or {}
        self.total = Tally()
        self.tools: dict[str, Tally] = {}
        self.types: dict[str, Tally] = {}
        self.statuses: dict[str, Tally] = {}
        self.projects: dict[str, Tally] = {}  # by folder; conversations without one are not counted
        self.first = self.last = ""
        for row in rows:
            self._count(row)

    def _count(self, row: Row) -> None:
        self.total.add(row)
        # A session without an AI tool was held in one of our own programs.
        for name, table in (
            (row.tool or {"spawn": "aur", "chat": "alfred"}.get(row.kind, NO_TOOL), self.tools),
            (row.type or row.kind, self.types),
            (row.status, self.statuses),
        ):
            if name not in table:
                table[name] = Tally()
            table[name].add(row)
        if row.project:
            self.projects.setdefault(row.project, Tally()).add(row)
        if row.created_at and (not self.first or row.created_at < self.first):
            self.first = row.created_at
        self.last = max(self.last, row.last_active)

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


def last_days(count: int, found: Mapping[str, Tally], now: float | None = None) -> dict[str, Tally]:
    """Return the last days until today (in UTC), the oldest first, each with what was found."""
    today = int((time.time() if now is None else now) // DAY)
    names = (clock.from_epoch((today - back) * DAY)[:10] for back in range(count - 1, -1, -1))
    return {name: found.get(name) or Tally() for name in names}


def ranked(table: dict[str, Tally]) -> list[tuple[str, Tally]]:
    """Return the entries, the ones with the most sessions first."""
    return sorted(table.items(), key=lambda pair: (-pair[1].sessions, pair[0]))
