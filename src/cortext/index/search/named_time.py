"""The time that a question names: "last month", "in March", "vorgestern", "avant-hier", "before the release"."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from typing import NamedTuple

from cortext.index.search.words import WORD, is_french
from cortext.model import clock
from cortext.model.query import moment, written

_MONTHS = (
    ("january", "jan", "januar", "jänner", "janvier"),
    ("february", "feb", "februar", "février", "fevrier"),
    ("march", "mar", "märz", "mars"),
    ("april", "apr", "avril"),
    ("may", "mai"),
    ("june", "jun", "juni", "juin"),
    ("july", "jul", "juli", "juillet"),
    ("august", "aug", "août", "aout"),
    ("september", "sep", "septembre"),
    ("october", "oct", "oktober", "octobre"),
    ("november", "nov", "novembre"),
    ("december", "dec", "dezember", "décembre", "decembre"),
)
_MONTH_NUMBERS = {name: number for number, names in enumerate(_MONTHS, 1) for name in names}
_MONTH = "|".join(sorted(_MONTH_NUMBERS, key=len, reverse=True))
_ALSO_WORDS = ("may", "march", "mar", "mars", "jan", "jun", "juli")  # in small letters, these are often something else
_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_GERMAN_DAYS = ("montag", "dienstag", "mittwoch", "donnerstag", "freitag", "samstag", "sonntag")
_FRENCH_DAYS = ("lundi", "mardi", "mercredi", "jeudi", "vendredi", "samedi", "dimanche")
_DAY_NUMBERS = {name: day for names in (_WEEKDAYS, _GERMAN_DAYS, _FRENCH_DAYS) for day, name in enumerate(names)}
_WEEKDAY = "|".join(_DAY_NUMBERS)
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
# Days before today; a part of a day stands for the whole, and a night for two days.
_DAYS_BACK = {
    "today": 0, "this morning": 0, "this afternoon": 0, "this evening": 0, "heute": 0, "aujourd'hui": 0, "ce matin": 0,
    "cet après-midi": 0, "ce soir": 0, "yesterday": 1, "last night": 1, "gestern": 1, "hier": 1, "hier soir": 1,
    "hier matin": 1, "day before yesterday": 2, "vorgestern": 2, "avant-hier": 2,
}  # fmt: skip
_TWO_DAYS = ("last night", "hier soir")
_NAMED_DAY = "|".join(sorted(_DAYS_BACK, key=len, reverse=True)).replace(" ", r"\s+").replace("'", "['’]")
# Groups of one kind are numbered: `unit1` is that of "last month", `unit3` that of "le mois dernier".
_LAST = re.compile(
    rf"{_ALONE}(?:(?:im|in\s+de[rn]|in|the|d['’])\s*\b)?"
    r"(?:(?P<bound>since|before|after|until|seit|vor|depuis|avant)\s+)?"
    rf"(?:(?P<word1>last|past|previous|this)\s+(?:(?P<count1>\d{{1,3}})\s+)?(?P<unit1>{_UNIT})s?|(?P<day>{_NAMED_DAY})"
    r"|(?P<word2>letzte[mnrs]?|vorige[mnrs]?|vergangene[mnrs]?|diese[mnrs]?)\s+"
    rf"(?:(?P<count2>\d{{1,3}})\s+)?(?P<unit2>{_FOREIGN})"
    rf"|(?:l[ae]\s+|l['’])(?P<unit3>{_FOREIGN})\s+(?:dernière|derniere|dernier|passée?)"
    rf"|(?P<word4>ce|cet|cette)\s+(?P<unit4>{_FOREIGN})(?:-ci)?"
    rf"|les\s+(?P<count5>\d{{1,3}})\s+(?:dernières|dernieres|derniers)\s+(?P<unit5>{_FOREIGN})"
    rf"|(?:last|letzten)\s+(?P<weekday1>{_WEEKDAY})|(?P<weekday2>{_WEEKDAY})\s+dernier"
    rf"|(?P<recent>recently|lately|neulich|kürzlich|récemment)){_ENDS}",
    re.IGNORECASE,
)
_THIS = ("this", "diese", "ce")
_HIER = re.compile(r"(?:(?:im|in|seit|vor)\s+)?hier", re.IGNORECASE)  # not "d'hier", "depuis hier", "hier soir"
_DAY = re.compile(
    rf"\b(?:(\d{{1,2}})(?:st|nd|rd|th|\.)?\s+(?:of\s+)?({_MONTH})|({_MONTH})\s+(\d{{1,2}})(?:st|nd|rd|th)?(?!\d))\b"
    r"(?:,?\s+(\d{4}))?",
    re.IGNORECASE,
)
_IN_MONTH = re.compile(
    rf"\b(in|during|since|before|after|until|by|of|im|seit|vor|nach|en|au mois de|depuis|avant|après)\s+({_MONTH})\b"
    r"(?:,?\s+(\d{4}))?",
    re.IGNORECASE,
)
_ON_WEEKDAY = re.compile(rf"\b(on|since|before|after|until|am|seit|vor|depuis|avant)\s+({_WEEKDAY})\b", re.IGNORECASE)
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


class NamedTime(NamedTuple):
    """The time that a text names (two sortable numbers such as 20261115093000), and the rest of the text.

    `unclear` is what sounds like a time ("before the release"), but is none that is known. `calendar` is what names the
    time in words that stay in the rest ("in March"): a message may have them, too. `words` are all that name it.
    """

    rest: str
    span: tuple[int, int] | None
    unclear: str = ""
    calendar: str = ""
    words: str = ""


def named_time(text: str, released: Released = lambda version: 0, now: float | None = None) -> NamedTime:
    """Return the time that a text names, if it names one."""
    now = time.time() if now is None else now
    ago = _AGO.search(text)
    rest = _AGO.sub(" ", text)
    spoken = _spoken(rest)
    rest = _without(rest, spoken).strip()
    if ago:
        return NamedTime(rest, _ago(ago, now), words=ago[0])
    if spoken:
        return NamedTime(rest, _relative(spoken[0], now), words=spoken[0][0])
    span, calendar = _written_time(text, now)
    release = _RELEASE.search(rest) if span is None else None
    if release is None:
        return NamedTime(rest, span, "", calendar, calendar)
    at = released(release[2] or "")
    if not at:
        return NamedTime(rest, None, release[0])
    return NamedTime(_without(rest, [release]).strip(), _bounded(release[1], (at, at)), words=release[0])


def days_of(span: tuple[int, int]) -> str:
    """Return the local days of a span of time: `2026-11-18`, `2026-11-02 to 2026-11-18`, `since 2026-11-02`."""
    first, last = (clock.day(written(number, ".000Z")) for number in span)
    if span[0] == EVER[0]:
        return f"until {last}"
    if span[1] == EVER[1]:
        return f"since {first}"
    return first if first == last else f"{first} to {last}"


def _without(text: str, found: Sequence[re.Match[str]]) -> str:
    """Return a text without these matches."""
    for match in reversed(found):
        text = f"{text[: match.start()].rstrip()} {text[match.end() :].lstrip()}"
    return text


def _spoken(text: str) -> list[re.Match[str]]:
    """Return the words for a time as seen from today; "hier" is one in French, and "here" in German."""
    found = list(_LAST.finditer(text))
    if any(_HIER.fullmatch(match[0]) for match in found) and not is_french(WORD.findall(text.lower())):
        return [match for match in found if not _HIER.fullmatch(match[0])]
    return found


def _ago(found: re.Match[str], now: float) -> tuple[int, int]:
    number, unit = (found[1], found[2]) if found[1] else (found[3], found[4])
    days = (_NUMBERS.get(number.lower()) or int(number)) * _days(unit)
    slack = max(1.0, 0.3 * days)  # "two weeks ago" is rarely meant to the day
    return _at(now - (days + slack) * 86_400), _at(now - (days - slack) * 86_400)


def _written_time(text: str, now: float) -> tuple[tuple[int, int] | None, str]:
    """Return the span that a date names, and the words that do."""
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
        return _bounded(written[1] or written[3] or "", _span(*pieces)), written[2] or written[4]
    return None, ""


def _limits(between: re.Match[str], now: float) -> tuple[int, int]:
    """Return the span from the first to the last of two months or days."""
    first_month, first_year, first_day, last_month, last_year, last_day = between.groups()
    if last_day:
        pieces = [int(piece) for piece in last_day.split("-")]
    else:
        pieces = [int(last_year) if last_year else _latest(_month(last_month), now), _month(last_month)]
    last = _span(*pieces)
    if first_day:
        first = _span(*map(int, first_day.split("-")))
    else:
        year = int(first_year) if first_year else pieces[0]
        first = _span(year, _month(first_month))
        if not first_year and first > last:
            first = _span(year - 1, _month(first_month))
    return first[0], last[1]


def _relative(found: re.Match[str], now: float) -> tuple[int, int]:
    named = {name.rstrip("12345"): text.lower() for name, text in found.groupdict().items() if text}
    bound, weekday = named.get("bound", ""), named.get("weekday")
    if "day" in named:
        day = " ".join(named["day"].replace("’", "'").split())
        span = _whole_day(now - _DAYS_BACK[day] * 86_400)
        return _bounded(bound, (span[0], _whole_day(now)[1]) if day in _TWO_DAYS else span)
    if weekday:
        return _bounded(bound, _last_weekday(weekday, now))
    if "recent" in named:
        return _at(now - RECENT * 86_400), _at(now)
    days = int(named.get("count", 1)) * _days(named["unit"])
    # "Last month" may mean the last thirty days or the calendar month before: up to twice as far back.
    is_short = "count" in named or named.get("word", "").startswith(_THIS)
    span = _at(now - (days if is_short else 2 * days) * 86_400), _at(now)
    return span if bound == "after" else _bounded(bound, span)


def _last_weekday(name: str, now: float) -> tuple[int, int]:
    """Return the last such day before today."""
    return _whole_day(now - ((time.localtime(now).tm_wday - _DAY_NUMBERS[name.lower()] - 1) % 7 + 1) * 86_400)


def _days(unit: str) -> int:
    return _UNITS[_FOREIGN_UNITS.get(unit.lower(), unit.lower())]


def _whole_day(epoch: float) -> tuple[int, int]:
    """Return the local day of a time."""
    day = clock.day(epoch)
    return moment(day), moment(day, end=True)


def _bounded(word: str, span: tuple[int, int]) -> tuple[int, int]:
    word = _BOUNDS.get(word.lower(), word.lower())
    if word in ("before", "until", "by"):
        return EVER[0], span[0] if word == "before" else span[1]
    if word in ("after", "since"):
        return span[1] if word == "after" else span[0], EVER[1]
    return span


def _span(year: int, month: int = 0, day: int = 0) -> tuple[int, int]:
    """Return a local year, month or day; of one that does not exist, such as 31 November, what it would be in UTC."""
    text = "-".join([f"{year:04}", *(f"{piece:02}" for piece in (month, day) if piece)])
    if moment(text) >= 0:
        return moment(text), moment(text, end=True)
    first = year * 10_000 + (month or 1) * 100 + (day or 1)
    last = year * 10_000 + (month or 12) * 100 + (day or 31)
    return first * 1_000_000, last * 1_000_000 + 235_959


def _month(name: str) -> int:
    return _MONTH_NUMBERS[name.lower()]


def _latest(month: int, now: float) -> int:
    """Return the year of the last such month."""
    today = clock.day(now)
    return int(today[:4]) - (month > int(today[5:7]))


def _at(epoch: float) -> int:
    return int(clock.from_epoch(epoch)[:19].translate(str.maketrans("", "", "-T:")))
