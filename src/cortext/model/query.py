"""What is asked of lists and search: one value, which goes down from a face to the index and the servers.

A filter is named in FILTERS. In the text of a query, an invalid one is an ordinary word; given by name, it is an error.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence

import msgspec

from cortext.errors import UsageError
from cortext.model import clock

FILTERS = ("tool", "type", "status", "agent", "role", "workspace", "project", "tag", "is", "after", "before")
OF_SESSIONS = ("tool", "type", "status", "agent", "project", "tag", "is")  # the same for every message of a session
IS = ("starred", "unstarred", "archived", "unarchived")  # what `is:` accepts

_RELATIVE = re.compile(r"(\d{1,4})([hdwmy])")
_DAYS = {"h": 1 / 24, "d": 1.0, "w": 7.0, "m": 30.0, "y": 365.0}
_TIMES = "use 2026, 2026-11, 2026-11-15, today, yesterday, 12h, 7d, 2w, 3m or 1y"

Among = Callable[[str, str], bool]  # whether a session, by its store and id, may be found


class Query(msgspec.Struct, frozen=True):
    """Which sessions, or which messages if there is a `text`, and how many of them in which order.

    `filters` are values by name, as a person types them: see `FILTERS`.
    """

    text: str = ""
    filters: Mapping[str, str] = {}
    roots: Sequence[str] | None = None  # the stores; None: all
    limit: int = 0  # 0: all sessions, or as many results as usual
    order: str = "last_active"  # of a list: titles from A to Z, everything else descending
    per_session: int = 0  # messages of one session at most; 0: as usual
    own_commands: bool = True  # also chats that only ran commands of ours
    exact: bool = False  # by whole words only
    leave_out: Collection[str] = ()  # ids of sessions that are not searched
    among: Among | None = None  # which sessions may be found at all


def is_valid(name: str, value: str) -> bool:
    """Whether this filter accepts this value."""
    if name == "project":
        return value.startswith(("/", "~", "."))  # else it is rather a word of the text
    if name == "is":
        return all(word in IS for word in value.lower().split(","))
    return name not in ("after", "before") or moment(value) > 0


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


def moment(text: str, *, end: bool = False) -> int:
    """Return a date or time as a sortable number (20261115093000), or -1 if it is not one.

    Accepts a year, a month, a day, a full timestamp, `today`, `yesterday`, or an age: 12h, 7d, 2w, 3m, 1y.
    With `end`, a year, month or day stands for its last second.
    """
    text = text.strip().lower()
    ago = _RELATIVE.fullmatch(text)
    if ago:
        return number(clock.from_epoch(time.time() - int(ago[1]) * _DAYS[ago[2]] * 86_400))
    if text in ("today", "yesterday"):
        text = clock.from_epoch(time.time() - (86_400 if text == "yesterday" else 0))[:10]
    if re.fullmatch(r"\d{4}(-\d{2}(-\d{2})?)?", text):
        first = text + "0000-01-01"[len(text) :]
        if not clock.normalise(first):
            return -1
        digits = text.replace("-", "")
        return int(digits + "99991231235959"[len(digits) :]) if end else number(f"{first}T00:00:00Z")
    whole = clock.normalise(text.upper())
    return number(whole) if whole else -1


def timestamp(text: str, *, end: bool = False) -> str:
    """Like `moment`, but return a timestamp, or an empty string if it is not one."""
    found = moment(text, end=end)
    return "" if found < 0 else written(found, ".999Z" if end else ".000Z")


def written(number: int, end: str) -> str:
    """Return a sortable number as a timestamp that ends in this."""
    digits = f"{number:014}"
    day, hour = digits[:8], digits[8:]
    return f"{day[:4]}-{day[4:6]}-{day[6:]}T{hour[:2]}:{hour[2:4]}:{hour[4:]}{end}"


def number(timestamp: str) -> int:
    """Return one of our timestamps as a sortable number, or 0 if it is not one."""
    try:
        return _digits(timestamp)
    except ValueError:
        whole = clock.normalise(timestamp)
        return _digits(whole) if whole else 0


def _digits(timestamp: str) -> int:
    return int(timestamp[:19].encode().translate(None, b"-T:"))
