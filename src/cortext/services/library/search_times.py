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
        if name in ("after", "before"):
            _check_time(name, value)
        if name == "is" and not set(value.lower().split(",")) <= {"", *IS}:
            raise UsageError(f"unknown filter is:{value[:60]}", hint=f"use is:{', is:'.join(IS)}")


def _check_time(option: str, value: str) -> None:
    if value and moment(value) < 0:
        raise UsageError(f"invalid --{option} value {value!r}", kept="nothing was changed", hint=_TIMES)


def timestamps(after: str, before: str, options: tuple[str, str] = ("after", "before")) -> dict[str, str]:
    """Return both times as timestamps; an empty one stays empty. `options` are the names they were given under."""
    for option, value in zip(options, (after, before), strict=True):
        _check_time(option, value)
    return {
        "after": timestamp(after) if after else "",
        "before": timestamp(before, end=True) if before else "",
    }
