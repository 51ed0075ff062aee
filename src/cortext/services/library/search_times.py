"""Filters that were given by name, checked; in the text of a query a senseless one is a word like any other."""

from __future__ import annotations

from collections.abc import Mapping

from cortext.errors import UsageError
from cortext.index.search.query import FILTERS, moment, timestamp

_TIMES = "a time is 2026, 2026-11, 2026-11-15, today, yesterday, 12h, 7d, 2w, 3m or 1y"


def check_filters(filters: Mapping[str, str]) -> None:
    """Say what is wrong with them."""
    for name, value in filters.items():
        if name not in FILTERS:
            raise UsageError(f"no filter {name!r}", hint=f"there are {', '.join(FILTERS)}")
        if name in ("after", "before") and value and moment(value) < 0:
            raise UsageError(f"--{name} {value!r} is no time", kept="nothing was changed", hint=_TIMES)


def timestamps(after: str, before: str) -> dict[str, str]:
    """Both as timestamps; empty ones stay so."""
    check_filters({"after": after, "before": before})
    return {
        "after": timestamp(after) if after else "",
        "before": timestamp(before, end=True) if before else "",
    }
