"""Checks of filters given by name. In the text of a query, an invalid filter is an ordinary word."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from cortext.errors import UsageError
from cortext.index.search.query import FILTERS, IS, moment, timestamp

_TIMES = "use 2026, 2026-11, 2026-11-15, today, yesterday, 12h, 7d, 2w, 3m or 1y"


def check_filters(filters: Mapping[str, str], known: Collection[str] = FILTERS) -> None:
    """Raise UsageError for an unknown filter or an invalid time."""
    for name, value in filters.items():
        if name not in known:
            raise UsageError(f"unknown filter {name!r}", hint=f"use one of {', '.join(known)}")
        if name in ("after", "before") and value and moment(value) < 0:
            raise UsageError(f"invalid --{name} value {value!r}", kept="nothing was changed", hint=_TIMES)
        if name == "is" and not set(value.lower().split(",")) <= {"", *IS}:
            raise UsageError(f"unknown filter is:{value[:60]}", hint=f"use is:{', is:'.join(IS)}")


def timestamps(after: str, before: str) -> dict[str, str]:
    """Return both times as timestamps; an empty one stays empty."""
    check_filters({"after": after, "before": before})
    return {
        "after": timestamp(after) if after else "",
        "before": timestamp(before, end=True) if before else "",
    }
