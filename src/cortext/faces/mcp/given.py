"""The arguments of a call, as models give them: read leniently, refused clearly."""

from __future__ import annotations

import re
from typing import Any

from cortext.errors import UsageError
from cortext.services.library.search import check_filters

_RANGE = re.compile(r"\s*(?:\.\.+|…|\bto\b|\buntil\b|/|,|–|—)\s*", re.IGNORECASE)
_LAST = re.compile(r"(?:the )?(?:last|past|previous)\s+(?:(\d{1,4})\s+)?(hour|day|week|month|year)s?", re.IGNORECASE)
_UNIT = {"hour": "h", "day": "d", "week": "w", "month": "m", "year": "y"}
_BEGIN = ("after", "from", "start", "since", "begin")
_END = ("before", "to", "end", "until")


class Given:
    """What was given by name; what the tool does not take is refused at once."""

    def __init__(self, values: dict[str, Any], known: tuple[str, ...]) -> None:
        self._values = {name: value for name, value in values.items() if value is not None}
        unknown = [name for name in self._values if name not in known]
        if unknown:
            raise UsageError(
                f"there is no argument {', '.join(ascii(name)[:60] for name in unknown[:5])}",
                hint=f"this tool takes {', '.join(known) or 'none'}",
            )

    def text(self, name: str) -> str:
        """A text, empty where none was given."""
        value = self._values.get(name, "")
        if isinstance(value, int | float) and not isinstance(value, bool):
            value = str(value)  # an id such as 001 that was taken for a number
        if not isinstance(value, str):
            raise UsageError(f"{name} must be a text, not {type(value).__name__}")
        return value.strip()

    def needed(self, name: str) -> str:
        """A text that must be there."""
        value = self.text(name)
        if not value:
            raise UsageError(f"{name} is missing", hint=f"say {name} in words")
        return value

    def number(self, name: str, default: int, least: int, most: int) -> int:
        """A whole number within bounds; some models write 5 as "5" or as 5.0."""
        value = self._values.get(name, default)
        try:
            if isinstance(value, bool):
                raise TypeError
            return max(least, min(most, int(float(value))))
        except (TypeError, ValueError, OverflowError):
            raise UsageError(f"{name} must be a number, not {ascii(value)[:60]}") from None

    def flag(self, name: str) -> bool:
        """Yes or no; some models write true as "true"."""
        return self._values.get(name, False) in (True, 1, "true", "True", "yes")

    def texts(self, name: str) -> list[str]:
        """Several texts: a list, or one text with commas."""
        value = self._values.get(name, [])
        if isinstance(value, str):
            value = value.split(",")
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise UsageError(f"{name} must be a list of texts")
        return [item.strip() for item in value if item.strip()][:100]

    def filters(self, *names: str) -> dict[str, str]:
        """The filters of a search that were given, checked."""
        filters = {name: value for name in names if (value := self.text(name))}
        check_filters(filters)
        return filters

    def dates(self, name: str) -> dict[str, str]:
        """A time from and to: `2026-11-01..2026-11-15`, `2026-11`, `7d`, `last week`, or {"from": …, "to": …}."""
        value = self._values.get(name, "")
        if isinstance(value, list) and len(value) == 2:
            value = {"after": value[0], "before": value[1]}
        if isinstance(value, dict):
            ends = {key.lower(): text for key, text in value.items() if isinstance(text, str)}
            begin = next((ends[key] for key in _BEGIN if key in ends), "")
            end = next((ends[key] for key in _END if key in ends), "")
        else:
            begin, end = _ends(self.text(name))
        filters = {key: text.strip() for key, text in (("after", begin), ("before", end)) if text.strip()}
        try:
            check_filters(filters)
        except UsageError:
            raise UsageError(
                f"{name} {ascii(value)[:80]} is no time", hint="2026-11-01..2026-11-15, 2026-11, yesterday, 7d, 2w"
            ) from None
        return filters


def _ends(text: str) -> tuple[str, str]:
    """The two ends of a time that was written as one text; empty is open."""
    last = _LAST.fullmatch(text)
    if last:
        return f"{last[1] or 1}{_UNIT[last[2].lower()]}", ""
    if _RANGE.search(text):
        begin, end, *_ = _RANGE.split(text, maxsplit=1)
        return begin, end
    if re.fullmatch(r"\d{1,4}[hdwmy]", text, re.IGNORECASE):
        return text, ""
    return text, text  # one day, month or year: the whole of it
