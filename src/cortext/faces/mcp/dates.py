"""Date ranges in the forms that models write."""

from __future__ import annotations

import re
from typing import Any

from cortext.errors import UsageError
from cortext.model.query import check_filters

_RANGE = re.compile(r"\s*(?:\.\.+|…|\bto\b|\buntil\b|/|,|–|—)\s*", re.IGNORECASE)
_LAST = re.compile(r"(?:the )?(?:last|past|previous)\s+(?:(\d{1,4})\s+)?(hour|day|week|month|year)s?", re.IGNORECASE)
_UNIT = {"hour": "h", "day": "d", "week": "w", "month": "m", "year": "y"}
_BEGIN = ("after", "from", "start", "since", "begin")
_END = ("before", "to", "end", "until")


def as_text(value: Any) -> Any:
    """Return a range as text, from ["2026-11-01", "2026-11-15"] or {"from": …, "to": …}; anything else unchanged."""
    if isinstance(value, list) and len(value) == 2 and all(isinstance(end, str) for end in value):
        return "..".join(value)
    if isinstance(value, dict):
        ends = {name.lower(): end for name, end in value.items() if isinstance(end, str)}
        begin, end = (next((ends[name] for name in names if name in ends), "") for names in (_BEGIN, _END))
        return f"{begin}..{end}" if begin or end else value
    return value


def filters(text: str) -> dict[str, str]:
    """Return the filters `after` and `before` for `2026-11-01..2026-11-15`, `2026-11`, `7d` or `last week`."""
    begin, end = _ends(text)
    found = {name: value.strip() for name, value in (("after", begin), ("before", end)) if value.strip()}
    try:
        check_filters(found)
    except UsageError:
        hint = "use 2026-11-01..2026-11-15, 2026-11, yesterday, 7d or 2w"
        raise UsageError(f"invalid date range {ascii(text)[:80]}", hint=hint) from None
    return found


def _ends(text: str) -> tuple[str, str]:
    """Return the two ends of a range; an empty one is open."""
    last = _LAST.fullmatch(text)
    if last:
        return f"{last[1] or 1}{_UNIT[last[2].lower()]}", ""
    if _RANGE.search(text):
        begin, end, *_ = _RANGE.split(text, maxsplit=1)
        return begin, end
    if re.fullmatch(r"\d{1,4}[hdwmy]", text, re.IGNORECASE):
        return text, ""
    return text, text  # one day, month or year: the whole of it
