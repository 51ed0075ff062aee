"""The five-hour windows of each tool. All calls of a tool decide where they begin, so that a filter moves none."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable

HOUR = 3_600
LENGTH = 5 * HOUR


class Windows:
    """The windows of some calls, given as (tool, seconds since 1970)."""

    def __init__(self, calls: Iterable[tuple[str, int]]) -> None:
        self._starts: dict[str, list[int]] = {}
        for at, tool in sorted((at, tool) for tool, at in calls if at):
            starts = self._starts.setdefault(tool, [])
            if not starts or at >= starts[-1] + LENGTH:
                starts.append(at // HOUR * HOUR)

    def start(self, tool: str, at: int) -> int:
        """Return when the window of one of these calls begins."""
        starts = self._starts[tool]
        return starts[bisect_right(starts, at) - 1]
