"""What a question asks for besides its words: a decision, or something said at a certain time.

"What did we decide about retries last month" is about retries; that it was decided, and when, only orders the results.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import NamedTuple

from cortext.model import clock

_SETTLED = (
    r"decid(?:e|ed|ing)|agreed?|settled?|concluded?|choose|chosen?|pick(?:ed)?|land(?:ed)?|"
    r"end(?:ed)?\s+up|go(?:ne)?\s+with"
)
_SAID = r"say|said|discuss(?:ed)?|talk(?:ed)?|mention(?:ed)?"
_WE = r"(?:we|i|you|they|the team|anyone|somebody|someone)"
_NOUN = r"(?:decisions?|agreements?|conclusions?)"
_LEAD = re.compile(
    r"(?:(?:please\s+|can you\s+)?(?:remind me|tell me)\s+(?:of\s+|about\s+)?|do you (?:remember|know)\s+)?(?:"
    rf"(?:(?:what|which|why|how|when|where)\b(?P<object>.{{0,40}}?)\s)?(?:(?:did|do|have|had|has)\s+)?{_WE}\s+"
    rf"(?:have\s+|had\s+)?(?:ever\s+|finally\s+|already\s+)?(?:(?P<settled>{_SETTLED})|{_SAID})\b"
    rf"|who\s+(?P<by>{_SETTLED})\b"
    r"|what(?:\s+(?:was|has been|were|got)|['’]s\s+been)\s+(?:finally\s+)?"
    r"(?:(?P<passive>decided|agreed|settled|chosen|concluded)|said|discussed)\b"
    rf"|(?:what(?:\s+(?:was|is|were|are)|'s|’s)\s+)?(?:the|our|any|all)?\s*(?P<noun>{_NOUN})"
    r"(?:\s+(?:made|taken|reached))?(?=\s+(?:about|on|for|regarding|concerning|with))"
    r"|(?:was|wie|wann|warum|wieso|wofür|wogegen|worüber|worauf|welche[mnrs]?)\b(?P<german>.{0,40}?)\s"
    r"(?:haben|hatten)\s+wir\b|(?:was|wie)\s+wurde\b"
    r"|(?:qu['’]|que\s|quoi\s|comment\s|pourquoi\s)?(?:avons|avions)[- ]nous\b"
    r"|qu['’]est-ce\s+(?:qu['’]on\s+a|que\s+nous\s+avons)\b|(?:pourquoi|comment|quand)\s+a-t-on\b"
    r")",
    re.IGNORECASE,
)
_LINK = re.compile(
    r"\s*(?:\b(?:on|about|to|for|with|regarding|concerning|upon|that|over|doing|do)\b\s*)+", re.IGNORECASE
)
# In German and French, the verb that says whether it is about a decision comes at the end.
_TAIL = re.compile(
    r"\s*\b(?:(?P<settled>entschieden|beschlossen|vereinbart|festgelegt|gewählt|geeinigt|décidé|convenu|choisi)|"
    r"besprochen|gesprochen|gesagt|dit|discuté)\b[\s?.!]*",
    re.IGNORECASE,
)

_MONTHS = (
    ("january", "jan", "januar", "jänner", "janvier"),
    ("february", "feb", "februar", "février"),
    ("march", "mar", "märz", "mars"),
    ("april", "apr", "avril"),
    ("may", "mai"),
    ("june", "jun", "juni", "juin"),
    ("july", "jul", "juli", "juillet"),
    ("august", "aug", "août"),
    ("september", "sep", "septembre"),
    ("october", "oct", "oktober", "octobre"),
    ("november", "nov", "novembre"),
    ("december", "dec", "dezember", "décembre"),
)
_MONTH_NUMBERS = {name: number for number, names in enumerate(_MONTHS, 1) for name in names}
_MONTH = "|".join(sorted(_MONTH_NUMBERS, key=len, reverse=True))
_ALSO_WORDS = ("may", "march", "mar", "mars", "jan", "jun", "juli")  # in small letters, these are often something else
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_GERMAN_DAYS = ("montag", "dienstag", "mittwoch", "donnerstag", "freitag", "samstag", "sonntag")
_WEEKDAY = "|".join((*_WEEKDAYS, *_GERMAN_DAYS))
_UNITS = {"day": 1, "week": 7, "month": 30, "year": 365}
_FOREIGN_UNITS = {
    "tag": "day", "tage": "day", "tagen": "day", "woche": "week", "wochen": "week", "monat": "month",
    "monaten": "month", "jahr": "year", "jahren": "year", "jour": "day", "jours": "day", "semaine": "week",
    "semaines": "week", "mois": "month", "an": "year", "ans": "year", "année": "year",
}  # fmt: skip
_UNIT = "day|week|month|year"
_FOREIGN = "|".join(sorted(_FOREIGN_UNITS, key=len, reverse=True))
_COUNT = r"\d{1,3}|an?|one|two|three|four|five|six|ein(?:em|er)?|zwei|drei|vier|fünf|sechs|une?|deux|trois|quatre|cinq"
# A word of time stands alone: not in `today-list.md`, a path, or `today()`.
_ALONE, _ENDS = r"(?<![\w./:@-])", r"(?![\w/@(=-]|\.\w)"
_AGO = re.compile(
    rf"{_ALONE}(?:({_COUNT})\s+({_UNIT})s?\s+ago|(?:vor|il y a)\s+({_COUNT})\s+({_FOREIGN})){_ENDS}", re.IGNORECASE
)
_LAST = re.compile(
    rf"{_ALONE}(?:(since|before|after|until|seit|vor|depuis|avant)\s+)?"
    rf"(?:(last|past|previous|this)\s+(?:(\d{{1,3}})\s+)?({_UNIT})s?"
    r"|(today|yesterday|this\s+(?:morning|afternoon|evening)|last\s+night|heute|gestern|aujourd'hui|ce\s+matin)"
    rf"|(?:(letzte[nrs]?|vorige[nrs]?|diese[nrs]?)\s+({_FOREIGN})|(?:la|le|l')\s*({_FOREIGN})\s+(?:dernière|dernier|passée?))"
    rf"|(?:last|letzten)\s+({_WEEKDAY})|(recently|lately|neulich|kürzlich|récemment)){_ENDS}",
    re.IGNORECASE,
)
_DAY = re.compile(
    rf"\b(?:(\d{{1,2}})(?:st|nd|rd|th|\.)?\s+(?:of\s+)?({_MONTH})|({_MONTH})\s+(\d{{1,2}})(?:st|nd|rd|th)?(?!\d))\b"
    r"(?:,?\s+(\d{4}))?",
    re.IGNORECASE,
)
_IN_MONTH = re.compile(
    rf"\b(in|during|since|before|after|until|by|of|im|seit|vor|nach|en|depuis|avant|après)\s+({_MONTH})\b"
    r"(?:,?\s+(\d{4}))?",
    re.IGNORECASE,
)
_ON_WEEKDAY = re.compile(rf"\b(on|since|before|after|until|am|seit|vor)\s+({_WEEKDAY})\b", re.IGNORECASE)
_LIMIT = rf"(?:({_MONTH})(?:,?\s+(\d{{4}}))?|((?:19|20)\d\d-\d\d(?:-\d\d)?))"
_BETWEEN = re.compile(
    rf"\b(?:between|from|zwischen|von|entre|de)\s+{_LIMIT}\s+(?:and|to|until|und|bis|et|à)\s+{_LIMIT}(?![\w-])",
    re.IGNORECASE,
)
_WRITTEN = re.compile(
    r"\b(?:(?:(before|after|since|until)\s+)?((?:19|20)\d\d-\d\d(?:-\d\d)?)"
    r"|(before|after|since|until|in|during|seit|vor|nach|en|depuis|avant|après)\s+((?:19|20)\d\d))\b",
    re.IGNORECASE,
)
_RELEASE = re.compile(
    rf"{_ALONE}(before|after|since|until|vor|nach|seit|avant|après|depuis)\s+(?:(?:the|our|dem|der|unserem|la|le)\s+)?"
    r"(?:(?:last|latest|newest|letzten|dernière)\s+)?(?:(?:v(?:ersion)?\s*)?(\d+(?:\.\d+)+)(?:\s+release)?|release)"
    rf"{_ENDS}(?!\s+(?:notes?|branch|candidate|script|process|build|pipeline)\b)",
    re.IGNORECASE,
)
_SOMETHING = re.compile(r"\w")
_NUMBERS = {
    "a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "ein": 1, "einem": 1, "einer": 1,
    "zwei": 2, "drei": 3, "vier": 4, "fünf": 5, "sechs": 6, "un": 1, "une": 1, "deux": 2, "trois": 3, "quatre": 4,
    "cinq": 5,
}  # fmt: skip
_BOUNDS = {
    "seit": "since", "vor": "before", "nach": "after", "depuis": "since", "avant": "before", "après": "after",
}  # fmt: skip
RECENT = 14  # days that "recently" means
EVER = (0, 99991231235959)  # the first and the last time


Released = Callable[[str], int]  # when a version was released (empty: the newest), as a sortable number; 0: not known


class Asked(NamedTuple):
    """What a question asks for: its subject, whether a decision is wanted, and when (two sortable times).

    `unclear` is what sounds like a time ("before the release"), but is none that is known. `calendar` is what names the
    time in words of the subject ("in March"): a message may have them, too.
    """

    subject: str
    decision: bool
    when: tuple[int, int] | None
    unclear: str = ""
    calendar: str = ""


def asked(text: str, released: Released = lambda version: 0) -> Asked:
    """Return what a question asks for. If nothing would be left of it, the subject is the whole text.

    Only "what did we talk about yesterday" has no subject.
    """
    span, calendar = _named_time(text, time.time())
    subject = _LAST.sub(" ", _AGO.sub(" ", text)).strip()
    unclear = ""
    release = _RELEASE.search(subject) if span is None else None
    if release:
        moment = released(release[2] or "")
        if moment:
            span = _bounded(release[1], (moment, moment))
            subject = f"{subject[: release.start()]}{subject[release.end() :]}".strip()
        else:
            unclear = release[0]
    if not _SOMETHING.search(subject):
        return Asked(text, False, span, unclear, text if len(text.split()) > 1 else "")  # "since yesterday"
    lead = _LEAD.match(subject)
    if not lead:
        return Asked(subject, False, span, unclear, calendar)
    rest = subject[lead.end() :]
    tail = _TAIL.search(rest)
    decision = any((lead["settled"], lead["by"], lead["passive"], lead["noun"], tail is not None and tail["settled"]))
    rest = _TAIL.sub(" ", _LINK.sub(" ", rest, count=1) if _LINK.match(rest) else rest)
    rest = f"{lead['object'] or lead['german'] or ''} {rest}".strip()
    if not _SOMETHING.search(rest) and (decision or span is None):
        rest = subject
    return Asked(rest, decision, span, unclear, calendar)


def subject_of(text: str) -> str:
    """Return what a question is about: `retries`, of "what did we decide about retries"."""
    return asked(text).subject


def when(text: str, now: float | None = None) -> tuple[int, int] | None:
    """Return the span of time that a text names, as two sortable numbers (20261115093000), or None.

    "before the release" names none: only dates do (see `asked`).
    """
    return _named_time(text, time.time() if now is None else now)[0]


def _named_time(text: str, now: float) -> tuple[tuple[int, int] | None, str]:
    """Return the span, and the words that name it if these may also be in messages."""
    ago = _AGO.search(text)
    if ago:
        count = _NUMBERS.get((ago[1] or ago[3]).lower()) or int(ago[1] or ago[3])
        days = _days(ago[2] or ago[4])
        slack = max(1.0, 0.3 * count * days)  # "two weeks ago" is rarely meant to the day
        return (_at(now - (count * days + slack) * 86_400), _at(now - (count * days - slack) * 86_400)), ""
    last = _LAST.search(text)
    if last:
        return _relative(last, now), ""
    between = _BETWEEN.search(text)
    if between:
        return _limits(between, now), between[0]
    for day in _DAY.finditer(text):
        name = day[2] or day[3]
        if name not in _ALSO_WORDS or day[5]:  # "step 2 may fail" is no date
            month = _month(name)
            return _span(int(day[5]) if day[5] else _latest(month, now), month, int(day[1] or day[4])), day[0]
    named = _IN_MONTH.search(text)
    if named:
        month = _month(named[2])
        return _bounded(named[1], _span(int(named[3]) if named[3] else _latest(month, now), month)), named[0]
    weekday = _ON_WEEKDAY.search(text)
    if weekday:
        return _bounded(weekday[1], _last_weekday(weekday[2], now)), weekday[0]
    written = _WRITTEN.search(text)
    if written:
        pieces = [int(piece) for piece in (written[2] or written[4]).split("-")]
        return _bounded(written[1] or written[3] or "in", _span(*pieces)), written[2] or written[4]
    return None, ""


def _limits(between: re.Match[str], now: float) -> tuple[int, int]:
    """Return the span from the first to the last of two months or days."""
    first_month, first_year, first_day, last_month, last_year, last_day = between.groups()
    if last_day:
        last = _span(*map(int, last_day.split("-")))
    else:
        last = _span(int(last_year) if last_year else _latest(_month(last_month), now), _month(last_month))
    if first_day:
        first = _span(*map(int, first_day.split("-")))
    else:
        year = int(first_year) if first_year else last[0] // 10_000_000_000
        first = _span(year, _month(first_month))
        if not first_year and first > last:
            first = _span(year - 1, _month(first_month))
    return first[0], last[1]


def _relative(found: re.Match[str], now: float) -> tuple[int, int]:
    bound, word, count, unit, day, german, german_unit, french_unit, weekday, recent = found.groups()
    if day:
        day = day.lower()
        span = _whole_day(now - (86_400 if day in ("yesterday", "gestern") or day.endswith("night") else 0))
        span = (span[0], _whole_day(now)[1]) if day.endswith("night") else span
        return _bounded(bound or "in", span)
    if weekday:
        return _bounded(bound or "in", _last_weekday(weekday, now))
    if recent:
        return _at(now - RECENT * 86_400), _at(now)
    days = int(count or 1) * _days(unit or german_unit or french_unit)
    # "Last month" may mean the last thirty days or the calendar month before: up to twice as far back.
    is_this = (word or german or "").lower().startswith(("this", "diese"))
    span = _at(now - (days if is_this or count else 2 * days) * 86_400), _at(now)
    return _bounded(bound, span) if bound and bound.lower() != "after" else span


def _last_weekday(name: str, now: float) -> tuple[int, int]:
    """Return the last such day before today."""
    days = _WEEKDAYS if name.lower() in _WEEKDAYS else _GERMAN_DAYS
    return _whole_day(now - ((time.gmtime(now).tm_wday - days.index(name.lower()) - 1) % 7 + 1) * 86_400)


def _days(unit: str) -> int:
    return _UNITS[_FOREIGN_UNITS.get(unit.lower(), unit.lower())]


def _whole_day(epoch: float) -> tuple[int, int]:
    digits = clock.from_epoch(epoch)[:10].replace("-", "")
    return int(digits + "000000"), int(digits + "235959")


def _bounded(word: str, span: tuple[int, int]) -> tuple[int, int]:
    word = _BOUNDS.get(word.lower(), word.lower())
    if word in ("before", "until", "by"):
        return EVER[0], span[0] if word == "before" else span[1]
    if word in ("after", "since"):
        return span[1] if word == "after" else span[0], EVER[1]
    return span


def _span(year: int, month: int = 0, day: int = 0) -> tuple[int, int]:
    first = year * 10_000 + (month or 1) * 100 + (day or 1)
    last = year * 10_000 + (month or 12) * 100 + (day or 31)
    return first * 1_000_000, last * 1_000_000 + 235_959


def _month(name: str) -> int:
    return _MONTH_NUMBERS[name.lower()]


def _latest(month: int, now: float) -> int:
    """Return the year of the last such month."""
    today = clock.from_epoch(now)
    return int(today[:4]) - (month > int(today[5:7]))


def _at(epoch: float) -> int:
    return int(clock.from_epoch(epoch)[:19].translate(str.maketrans("", "", "-T:")))
