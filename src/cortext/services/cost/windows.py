"""The windows in which the limits of subscriptions are counted: five hours, and a week.

Where a tool records when its limits are reset (Codex), its windows are those. Otherwise a window of five hours begins
with the full hour of a tool's first call after the one before, and a week at a time that the user knows. All calls of a
tool decide where its windows begin, so that a filter moves none.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from typing import NamedTuple

HOUR = 3_600
FIVE_HOURS = 5 * HOUR
WEEK = 7 * 24 * HOUR
MONDAY = 4 * 24 * HOUR  # 1970 began on a Thursday
SAME = 600  # seconds by which the recorded ends of one window may differ


class Use(NamedTuple):
    """A call: its tool, when it was (in seconds since 1970), and when its window ends, if that was recorded, or 0."""

    tool: str
    at: int
    end: int


class Windows:
    """The windows of some calls. `week_from` is a moment at which a week begins; None for windows of five hours."""

    def __init__(self, uses: Iterable[Use], week_from: int | None = None) -> None:
        self.length = FIVE_HOURS if week_from is None else WEEK
        self._week_from = week_from
        uses = list(uses)
        self._recorded: dict[str, list[int]] = {}
        for end, tool in sorted((use.end, use.tool) for use in uses if use.end):
            starts = self._recorded.setdefault(tool, [])
            if not starts or end - self.length - starts[-1] > SAME:
                starts.append(end - self.length)
        self._begun: dict[str, list[int]] = {}
        for at, tool in sorted((use.at, use.tool) for use in uses if use.at):
            starts = self._begun.setdefault(tool, [])
            if self._in(self._recorded.get(tool, ()), at) is None and self._in(starts, at) is None:
                starts.append(at // HOUR * HOUR)

    def start(self, tool: str, at: int) -> int:
        """Return when the window of one of these calls begins."""
        recorded = self._in(self._recorded.get(tool, ()), at)
        if recorded is not None:
            return recorded
        if self._week_from is not None:
            return at - (at - self._week_from) % WEEK
        begun = self._in(self._begun.get(tool, ()), at)
        return at // HOUR * HOUR if begun is None else begun

    def _in(self, starts: list[int] | tuple[()], at: int) -> int | None:
        """Return the beginning of the window that contains a time; None if there is none."""
        index = bisect_right(starts, at) - 1
        return starts[index] if index >= 0 and at < starts[index] + self.length else None
