"""Check filters that were given by name. Inside the text of a query, an invalid one is a word like any other."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from cortext.errors import UsageError
from cortext.index.search.query import FILTERS, moment, timestamp

_TIMES = "use 2026, 2026-11, 2026-11-15, today, yesterday, 12h, 7d, 2w, 3m or 1y"


def check_filters(filters: Mapping[str, str], known: Collection[str] = FILTERS) -> None:
    """Raise UsageError for a filter that is not known, or a time that cannot be read."""
    for name, value in filters.items():
        if name not in known:
            raise UsageError(f"unknown filter {name!r}", hint=f"use one of {', '.join(known)}")
        if name in ("after", "before") and value and moment(value) < 0:
            raise UsageError(f"invalid --{name} value {value!r}", kept="nothing was changed", hint=_TIMES)


def timestamps(after: str, before: str) -> dict[str, str]:
    """Both as timestamps; empty ones stay so."""
    check_filters({"after": after, "before": before})
    return {
        "after": timestamp(after) if after else "",
        "before": timestamp(before, end=True) if before else "",
    }
