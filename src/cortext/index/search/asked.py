"""What a question asks for besides its words: a decision, or something said at a certain time.

"What did we decide about retries last month" is about retries; that it was decided, and when, only orders the results.
"""

from __future__ import annotations

import re
import time
from typing import NamedTuple

from cortext.model import clock

_VERB = (
    r"(?:decid\w*|agree\w*|settle[ds]?|conclude[ds]?|choose|chose[n]?|pick(?:ed)?|land(?:ed)?|say|said|discuss(?:ed)?|"
    r"talk(?:ed)?|mention(?:ed)?|end(?:ed)? up)"
)
_LEAD = re.compile(
    rf"(?:(?:what|which|why|how|when|where)\b(?P<object>.{{0,40}}?)\s)?(?:did|do|have|had|has)\s+"
    rf"(?:we|i|you|they|the team|anyone|somebody|someone)\s+(?:ever\s+|finally\s+|already\s+)?{_VERB}\b"
    r"|(?:what (?:was|is|were|are)\s+)?(?:the|our|any|all)?\s*(?:decisions?|agreements?|conclusions?)"
    r"(?:\s+(?:made|taken|reached))?(?=\s+(?:about|on|for|regarding|concerning|with))"
    r"|(?:was|wie|wann|warum)\s+(?:haben|hatten)\s+wir\b"
    r"|(?:qu'|que\s|quoi\s|comment\s|pourquoi\s)?(?:avons|avions)[- ]nous\b",
    re.IGNORECASE,
)
_LINK = re.compile(
    r"\s*(?:\b(?:on|about|to|for|with|regarding|concerning|upon|that|over|doing|do)\b\s*)+", re.IGNORECASE
)
_DECIDING = re.compile(r"decid|agree|settle|conclu|cho[os]|pick|land|decision|wir\b|nous\b", re.IGNORECASE)
_TAIL = re.compile(
    r"\s*\b(?:entschieden|beschlossen|vereinbart|besprochen|gesagt|décidé|convenu|choisi|dit)\b[\s?.!]*", re.IGNORECASE
)

_MONTHS = re.findall("[a-z]+", "january february march april may june july august september october november december")
_MONTH = "|".join(f"{name}|{name[:3]}" for name in _MONTHS)
_UNITS = {"day": 1, "week": 7, "month": 30, "year": 365}
_AGO = re.compile(r"\b(\d{1,3}|an?|one|two|three|four|five|six)\s+(day|week|month|year)s?\s+ago\b", re.IGNORECASE)
_LAST = re.compile(
    r"\b(?:(last|past|previous|this)\s+(?:(\d{1,3})\s+)?(day|week|month|year)s?|(today|yesterday))\b", re.IGNORECASE
)
_DAY = re.compile(
    rf"\b(?:(\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?({_MONTH})|({_MONTH})\s+(\d{{1,2}})(?:st|nd|rd|th)?(?!\d))\b"
    r"(?:,?\s+(\d{4}))?",
    re.IGNORECASE,
)
_IN_MONTH = re.compile(
    rf"\b(in|during|since|before|after|until|by|of)\s+({_MONTH})\b(?:,?\s+(\d{{4}}))?", re.IGNORECASE
)
_WRITTEN = re.compile(r"\b(?:(before|after|since|until)\s+)?(?:in\s+)?((?:19|20)\d\d(?:-\d\d(?:-\d\d)?)?)\b")
_SOMETHING = re.compile(r"\w{2}")
_NUMBERS = {"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6}
_EVER = (0, 99991231235959)


class Asked(NamedTuple):
    """What a question asks for: its subject, whether a decision is wanted, and when (two sortable times)."""

    subject: str
    decision: bool
    when: tuple[int, int] | None


def asked(text: str) -> Asked:
    """Return what a question asks for. If nothing would be left of it, the subject is the whole text."""
    span = when(text)
    subject = _LAST.sub(" ", _AGO.sub(" ", text)).strip()
    if not _SOMETHING.search(subject):
        return Asked(text, False, span)
    lead = _LEAD.match(subject)
    if not lead:
        return Asked(subject, False, span)
    rest = subject[lead.end() :]
    rest = _TAIL.sub(" ", _LINK.sub(" ", rest, count=1) if _LINK.match(rest) else rest)
    rest = f"{lead['object'] or ''} {rest}".strip()
    if not _SOMETHING.search(rest):
        return Asked(subject, False, span)
    return Asked(rest, bool(_DECIDING.search(lead.group())), span)


def subject_of(text: str) -> str:
    """Return what a question is about: `retries`, of "what did we decide about retries"."""
    return asked(text).subject


def when(text: str, now: float | None = None) -> tuple[int, int] | None:
    """Return the span of time that a text names, as two sortable numbers (20261115093000), or None.

    "before the release" names none: only dates do.
    """
    now = time.time() if now is None else now
    ago = _AGO.search(text)
    if ago:
        count, days = _NUMBERS.get(ago[1].lower()) or int(ago[1]), _UNITS[ago[2].lower()]
        slack = max(1.0, 0.3 * count * days)  # "two weeks ago" is rarely meant to the day
        return _at(now - (count * days + slack) * 86_400), _at(now - (count * days - slack) * 86_400)
    last = _LAST.search(text)
    if last:
        return _relative(last, now)
    day = _DAY.search(text)
    if day:
        month = _month(day[2] or day[3])
        year = int(day[5]) if day[5] else 0
        return _span(year or _latest(month, now), month, int(day[1] or day[4]))
    named = _IN_MONTH.search(text)
    if named:
        month = _month(named[2])
        return _bounded(named[1], _span(int(named[3]) if named[3] else _latest(month, now), month))
    written = _WRITTEN.search(text)
    if written:
        pieces = [int(piece) for piece in written[2].split("-")]
        return _bounded(written[1] or "in", _span(*pieces))
    return None


def _relative(found: re.Match[str], now: float) -> tuple[int, int]:
    if found[4]:
        back = 86_400 if found[4].lower() == "yesterday" else 0
        digits = clock.from_epoch(now - back)[:10].replace("-", "")
        return int(digits + "000000"), int(digits + "235959")
    days = int(found[2] or 1) * _UNITS[found[3].lower()]
    # "Last month" may mean the last thirty days or the calendar month before: up to twice as far back.
    back = days if found[1].lower() == "this" or found[2] else 2 * days
    return _at(now - back * 86_400), _at(now)


def _bounded(word: str, span: tuple[int, int]) -> tuple[int, int]:
    word = word.lower()
    if word in ("before", "until", "by"):
        return _EVER[0], span[0] if word == "before" else span[1]
    if word in ("after", "since"):
        return span[1] if word == "after" else span[0], _EVER[1]
    return span


def _span(year: int, month: int = 0, day: int = 0) -> tuple[int, int]:
    first = year * 10_000 + (month or 1) * 100 + (day or 1)
    last = year * 10_000 + (month or 12) * 100 + (day or 31)
    return first * 1_000_000, last * 1_000_000 + 235_959


def _month(name: str) -> int:
    return next(number for number, month in enumerate(_MONTHS, 1) if month.startswith(name.lower()))


def _latest(month: int, now: float) -> int:
    """Return the year of the last such month."""
    today = clock.from_epoch(now)
    return int(today[:4]) - (month > int(today[5:7]))


def _at(epoch: float) -> int:
    return int(clock.from_epoch(epoch)[:19].translate(str.maketrans("", "", "-T:")))
