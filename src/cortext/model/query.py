"""What is asked of lists and search: one value, which goes down from a face to the index and the servers.

A filter is declared once, in SessionFilters or Filters. From these are made the options of the commands, the parameters
of the library, of the page and of a model's tools, `name:value` in the text of a query, and the conditions in SQL.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Annotated, TypedDict, get_type_hints

import msgspec

from cortext.errors import UsageError
from cortext.model import clock
from cortext.model.session import ACTIVE, COMPLETED, IDLE, INTERRUPTED, PAUSED

DAMAGED = "damaged"  # shown as a status, but not stored as one
STARRED, ARCHIVED = "starred", "archived"
ANY, ALL = "any", "all"  # which of several values must hold
EQUAL, SINCE, UNTIL, WORD, AMONG = "=", ">=", "<=", "word", "among"


class Filter(msgspec.Struct, frozen=True):
    """A filter: what it compares with its value, and what each face says about it."""

    help: str  # of the option
    of_messages: str = ""  # the same for a search, where that says something else
    for_models: str = ""  # the same for a model
    column: str = ""  # of a session; empty: it names stores, or it is about messages
    field: str = ""  # of a message
    compare: str = EQUAL  # WORD: a word in the column; AMONG: one of a JSON array
    several: str = ""  # ANY, ALL: it may name several values, separated by commas
    choices: tuple[str, ...] = ()
    is_time: bool = False
    is_offered: bool = False  # the page and `cortext browse` offer the values that there are
    flags: Mapping[str, tuple[str, str]] = {}  # values that are options: with the help of a list, and of a search


SessionFilters = TypedDict(
    "SessionFilters",
    {
        "tool": Annotated[
            str,
            Filter(
                "only sessions of this AI tool (see `cortext tools`), or of one of several: claude,codex",
                for_models="only sessions of this AI tool, by its short name, such as claude",
                column="tool",
                several=ANY,
                is_offered=True,
            ),
        ],
        "type": Annotated[
            str,
            Filter(
                "only conversations of this type (brainstorm, debug, …), or of one of several: plan,debug",
                for_models="only conversations of this type: brainstorm, debug, plan, learn, meeting, review, …",
                column="type",
                several=ANY,
                is_offered=True,
            ),
        ],
        "status": Annotated[
            str,
            Filter(
                "only sessions with this status",
                for_models="only sessions that are active, paused, completed or interrupted",
                column="status",
                choices=(ACTIVE, PAUSED, COMPLETED, INTERRUPTED, IDLE, DAMAGED),
                is_offered=True,
            ),
        ],
        "agent": Annotated[str, Filter("only sessions with this agent", column="agent", several=ANY)],
        "workspace": Annotated[str, Filter("only this workspace or store, by its name or folder")],
        "project": Annotated[
            str,
            Filter(
                "only conversations about the project in this folder, wherever it was held",
                for_models="only sessions about the project in this folder (. is the current one), wherever it was",
                column="project",
                compare=AMONG,
                is_offered=True,
            ),
        ],
        "tag": Annotated[
            str,
            Filter(
                "only conversations with this tag, or with all of several: a,b",
                for_models="only conversations with this tag; several are separated by commas",
                column="tags",
                compare=WORD,
                several=ALL,
                is_offered=True,
            ),
        ],
        "is": Annotated[
            str,
            Filter(
                "only conversations that are starred or archived (or unstarred, unarchived)",
                several=ALL,
                choices=(STARRED, "unstarred", ARCHIVED, "unarchived"),
                flags={
                    STARRED: ("only sessions with a star", "only conversations that the user marked with a star"),
                    ARCHIVED: (
                        "only archived sessions, which are otherwise left out",
                        "only archived conversations; otherwise these are found among the others",
                    ),
                },
            ),
        ],
        "after": Annotated[
            str,
            Filter(
                "only sessions active since then: 2026-11-15, yesterday, 7d, 2w, 3m",
                of_messages="only messages since then: 2026-11-15, yesterday, 7d, 2w, 3m",
                for_models="only what was said since then: 2026-11-15, yesterday, 7d",
                column="last_active",
                field="timestamp",
                compare=SINCE,
                is_time=True,
            ),
        ],
        "before": Annotated[
            str,
            Filter(
                "only sessions last active until then",
                of_messages="only messages until then",
                for_models="only what was said until then",
                column="last_active",
                field="timestamp",
                compare=UNTIL,
                is_time=True,
            ),
        ],
    },
    total=False,
)


class Filters(SessionFilters, total=False):
    """The filters of a search: those of sessions, and those of messages."""

    role: Annotated[str, Filter("only messages of this role (user, assistant, tool, system)", field="role")]


FILTERS: dict[str, Filter] = {
    name: hint.__metadata__[0] for name, hint in get_type_hints(Filters, include_extras=True).items()
}

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


def of_sessions() -> list[str]:
    """Return the names of the filters that say something about a session, and not only about one of its messages."""
    return [name for name, filter in FILTERS.items() if filter.column or not filter.field]


def is_valid(name: str, value: str) -> bool:
    """Whether a filter in the text of a query accepts this value; else it is rather a word."""
    filter = FILTERS[name]
    if filter.compare == AMONG:
        return value.startswith(("/", "~", "."))
    if filter.flags:
        return all(word in filter.choices for word in value.lower().split(","))
    return not filter.is_time or moment(value) > 0


def check_filters(filters: Mapping[str, str], names: Collection[str] = ()) -> None:
    """Raise UsageError for a filter that is not among the names (by default: all), and for an invalid time."""
    names = names or FILTERS
    for name, value in filters.items():
        if name not in names:
            raise UsageError(f"unknown filter {name!r}", hint=f"use one of {', '.join(names)}")
        filter = FILTERS[name]
        if filter.is_time:
            _check_time(name, value)
        if filter.flags and not set(value.lower().split(",")) <= {"", *filter.choices}:
            choices = f", {name}:".join(filter.choices)
            raise UsageError(f"unknown filter {name}:{value[:60]}", hint=f"use {name}:{choices}")


def check_choice(name: str, value: str) -> None:
    """Raise UsageError if a filter has choices, and this value is none of them."""
    choices = FILTERS[name].choices
    if value and choices and not FILTERS[name].several and value not in choices:
        raise UsageError(f"unknown {name} {ascii(value)[:60]}", hint=f"use one of {', '.join(choices)}")


def several(value: str) -> list[str]:
    """Return the values that a filter names."""
    return [piece for part in value.split(",") if (piece := part.strip())] or [value]


def _check_time(option: str, value: str) -> None:
    if value and moment(value) < 0:
        raise UsageError(f"invalid --{option} value {value!r}", kept="nothing was changed", hint=_TIMES)


def timestamps(after: str, before: str, options: tuple[str, str] = ("after", "before")) -> dict[str, str]:
    """Return both times as timestamps; an empty one stays empty. `options` are the names they were given under."""
    for option, value in zip(options, (after, before), strict=True):
        _check_time(option, value)
    return {name: comparable_time(name, value) for name, value in (("after", after), ("before", before))}


def comparable_time(name: str, value: str) -> str:
    """Return the value of a filter by time as a timestamp; empty if it is not a time."""
    return timestamp(value, end=FILTERS[name].compare == UNTIL)


def moment(text: str, *, end: bool = False) -> int:
    """Return a date or time as a sortable number in UTC (20261115093000), or -1 if it is not one.

    Accepts a full timestamp, a year, a month or a day of the local clock, `today`, `yesterday`, or an age: 12h, 7d, 2w,
    3m, 1y. With `end`, a year, month or day stands for its last second.
    """
    text = text.strip().lower()
    ago = _RELATIVE.fullmatch(text)
    if ago:
        return number(clock.from_epoch(time.time() - int(ago[1]) * _DAYS[ago[2]] * 86_400))
    if text in ("today", "yesterday"):
        text = clock.day(time.time() - (86_400 if text == "yesterday" else 0))
    if re.fullmatch(r"\d{4}(-\d{2}(-\d{2})?)?", text):
        return _edge(text, end=end)
    whole = clock.normalise(text.upper())
    return number(whole) if whole else -1


def _edge(text: str, *, end: bool) -> int:
    """Return the first or the last second of a local year, month or day; -1 if there is no such day."""
    first = text + "0000-01-01"[len(text) :]
    if not clock.normalise(first):
        return -1
    parts = [int(part) for part in text.split("-")]
    if end:
        parts[-1] += 1
    edge = clock.midnight(*parts)
    if edge is None:
        digits = text.replace("-", "")
        return int(digits + "99991231235959"[len(digits) :]) if end else number(f"{first}T00:00:00Z")
    return number(clock.from_epoch(edge - end))


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
