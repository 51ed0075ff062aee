"""The one clock: timestamps are UTC, ISO 8601, with a Z, in every file; people read and type local time."""

from __future__ import annotations

import re
import time
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from datetime import UTC, datetime

from cortext.model.wording import amount

_OURS = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{3})?Z")


_UNITS = (
    ("year", 31_536_000),
    ("month", 2_592_000),
    ("week", 604_800),
    ("day", 86_400),
    ("hour", 3600),
    ("minute", 60),
)

_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

# The last millisecond and the last whole second as text. Two appends in quick succession share them; formatting them
# again costs a tenth of a durable write.
_moment = (-1, "")
_second = (-1, "")


def now() -> str:
    """Return the current time, to the millisecond: `2026-11-15T09:30:00.123Z`."""
    global _moment, _second
    millis = time.time_ns() // 1_000_000
    moment = _moment
    if moment[0] != millis:
        whole = _second
        if whole[0] != millis // 1000:
            whole = _second = (millis // 1000, from_epoch(millis // 1000)[:19])
        moment = _moment = (millis, f"{whole[1]}.{millis % 1000:03d}Z")
    return moment[1]


def from_epoch(seconds: float) -> str:
    """Return seconds since 1970 as a timestamp."""
    millis = round(seconds * 1000)  # not int: 0.123 as a float is slightly less than that
    whole = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(millis // 1000)).rjust(19, "0")  # the year 999 too
    return f"{whole}.{millis % 1000:03d}Z"


def to_epoch(timestamp: str) -> float | None:
    """Return a timestamp as seconds since 1970, or None if it is not one. Without a zone it is UTC."""
    try:
        moment = datetime.fromisoformat(timestamp)
        if moment.tzinfo is None:
            moment = moment.replace(tzinfo=UTC)
        return moment.timestamp()
    except (ValueError, OverflowError):
        return None


def _is_ours(timestamp: str) -> bool:
    """Whether this is a timestamp in our format; with milliseconds, the usual case, without using the pattern."""
    if len(timestamp) == 24 and timestamp[23] == "Z" and timestamp[19] == "." and timestamp[10] == "T":
        ours = timestamp[4] == timestamp[7] == "-" and timestamp[5] != "W"  # W: a week date
    else:
        ours = _OURS.fullmatch(timestamp) is not None
    try:
        return ours and datetime.fromisoformat(timestamp) is not None
    except ValueError:
        return False


def normalise(timestamp: str) -> str:
    """Return the same time in our format, or an empty string if it is not a valid timestamp."""
    if _is_ours(timestamp):
        return timestamp
    seconds = to_epoch(timestamp)
    ours = "" if seconds is None else from_epoch(seconds)
    return ours if to_epoch(ours) is not None else ""  # a zone can move the year 1 into the year 0


def ago(timestamp: str, at: float | None = None) -> str:
    """Return how long ago something was: `2 hours ago`, `yesterday`, `3 weeks ago`."""
    seconds = to_epoch(timestamp)
    if seconds is None:
        return "unknown"
    age = (time.time() if at is None else at) - seconds
    if age < 60:
        return "just now"
    if 86_400 <= age < 2 * 86_400:
        return "yesterday"
    unit, length = next(pair for pair in _UNITS if age >= pair[1])
    count = int(age // length)
    return f"{amount(count, unit)} ago"


def day(timestamp: str | float) -> str:
    """Return the local day of a timestamp, or of seconds since 1970: `2026-11-15`; what is no time stays."""
    return minute(timestamp)[:10]


def minute(timestamp: str | float) -> str:
    """Return the same with the time of day: `2026-11-15 09:30`."""
    seconds = to_epoch(timestamp) if isinstance(timestamp, str) else timestamp
    if seconds is None:
        return str(timestamp)
    try:
        return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds)).rjust(16, "0")
    except (OverflowError, ValueError, OSError):
        return from_epoch(seconds)[:16].replace("T", " ")


def midnight(year: int, month: int = 1, of_month: int = 1) -> int | None:
    """Return when a local day begins, in seconds since 1970; None for a time that this machine's clock does not know.

    A month or day after the last one belongs to the next year or month.
    """
    try:
        return int(time.mktime((year, month, of_month, 0, 0, 0, 0, 0, -1)))
    except (OverflowError, ValueError):
        return None


def short(timestamp: str, at: float | None = None) -> str:
    """Return a local time in its shortest clear form: `14:05` today, `Nov 3, 14:05` this year, else with the year.

    Anything that is not a timestamp is returned unchanged.
    """
    seconds = to_epoch(timestamp)
    if seconds is None:
        return timestamp
    try:
        then, now_ = time.localtime(seconds), time.localtime(at)
    except (OverflowError, ValueError, OSError):
        return timestamp
    if then[:3] == now_[:3]:
        return time.strftime("%H:%M", then)
    if then.tm_year == now_.tm_year:
        return f"{_MONTHS[then.tm_mon - 1]} {then.tm_mday}, {time.strftime('%H:%M', then)}"
    return time.strftime("%Y-%m-%d %H:%M", then)


class Ago:
    """The same as `ago` for many timestamps, ten times as fast: looked up among the times at which the text changes."""

    def __init__(self, at: float | None = None) -> None:
        self._at = time.time() if at is None else at
        borders = [(60, "just now")]
        for unit, length in reversed(_UNITS):
            most = next((longer for _, longer in reversed(_UNITS) if longer > length), 100 * length)
            for count in range(1, -(-most // length)):
                text = "yesterday" if length == 86_400 and count == 1 else f"{amount(count, unit)} ago"
                borders.append((min((count + 1) * length, most), text))
        borders.reverse()
        # A timestamp after one border and not after the next has the text of the first.
        self._moments = [from_epoch(self._at - age) for age, _ in borders]
        self._words = [text for _, text in borders]

    def __call__(self, timestamp: str) -> str:
        if len(timestamp) in (20, 24) and timestamp[-1] == "Z" and timestamp > self._moments[0]:
            return self._words[bisect_left(self._moments, timestamp) - 1]
        return ago(timestamp, self._at)

    def of_all(self, timestamps: Sequence[str]) -> list[str]:
        """Return the text for each. In a list with the newest first, only the indices where it changes are searched."""
        size = len(timestamps[0]) if timestamps else 0
        alike = size in (20, 24) and set(map(len, timestamps)) == {size}
        if not alike or "".join(timestamps)[size - 1 :: size].strip("Z") or timestamps[-1] <= self._moments[0]:
            return [self(timestamp) for timestamp in timestamps]
        rising = sorted(timestamps)
        if rising[::-1] != list(timestamps):
            return [self(timestamp) for timestamp in timestamps]
        indices = [bisect_right(rising, moment) for moment in self._moments] + [len(rising)]
        words: list[str] = []
        for word, begin, end in zip(self._words, indices, indices[1:], strict=False):
            words += [word] * (end - begin)
        words.reverse()
        return words
