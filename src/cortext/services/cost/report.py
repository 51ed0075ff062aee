"""Costs by day, week, five-hour window, model, tool, project or session: the sums that every face shows.

The windows are those in which the limits of subscriptions are counted: five hours, and a week. Where a tool records
when its limits are reset (Codex), its windows are those. Otherwise a window of five hours begins with the full hour
of a tool's first call after the one before, and a week at a time that the user knows. All calls of a tool decide
where its windows begin, so that a filter moves none.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable
from datetime import date, timedelta
from typing import Any, NamedTuple

import msgspec

from cortext.errors import UsageError
from cortext.index.activity import CallIndex, ModelCall, calls_in
from cortext.model import clock
from cortext.model.message import Message
from cortext.model.query import several
from cortext.model.session import Session
from cortext.model.tokens import Tokens
from cortext.model.wording import amount
from cortext.services.cost.prices import UNKNOWN, Prices, money
from cortext.services.library.listing import Listing, Row

HOUR = 3_600
FIVE_HOURS = 5 * HOUR
WEEK = 7 * 24 * HOUR
MONDAY = 4 * 24 * HOUR  # 1970 began on a Thursday
SAME_END = 600  # seconds by which the recorded ends of one window may differ

# Kinds of entries that follow one another in time; the others are ranked by what they cost.
WINDOWS = ("window", "week-window")
TIMES = ("day", "week", "month", *WINDOWS)
KINDS = (*TIMES, "model", "tool", "project", "session")

Progress = Callable[[int, int], None]


class WindowUse(NamedTuple):
    """A call: its tool, when it was (in seconds since 1970), and when its window ends, if that was recorded, or 0."""

    tool: str
    at: int
    end: int


class LimitWindows:
    """The windows of some calls. `week_from` is a moment at which a week begins; None for windows of five hours."""

    def __init__(self, uses: Iterable[WindowUse], week_from: int | None = None) -> None:
        self.length = FIVE_HOURS if week_from is None else WEEK
        self._week_from = week_from
        uses = list(uses)
        self._recorded: dict[str, list[int]] = {}
        for end, tool in sorted((use.end, use.tool) for use in uses if use.end):
            starts = self._recorded.setdefault(tool, [])
            if not starts or end - self.length - starts[-1] > SAME_END:
                starts.append(end - self.length)
        self._begun: dict[str, list[int]] = {}
        for at, tool in sorted((use.at, use.tool) for use in uses if use.at):
            starts = self._begun.setdefault(tool, [])
            if self._in(self._recorded.get(tool, ()), at) is None and self._in(starts, at) is None:
                starts.append(at // HOUR * HOUR)

    def start(self, tool: str, at: int) -> int:
        """Return when the window of one of these calls begins."""
        recorded = self._in(self._recorded.get(tool, ()), at)
        if recorded is not None:
            return recorded
        if self._week_from is not None:
            return at - (at - self._week_from) % WEEK
        begun = self._in(self._begun.get(tool, ()), at)
        return at // HOUR * HOUR if begun is None else begun

    def _in(self, starts: list[int] | tuple[()], at: int) -> int | None:
        """Return the beginning of the window that contains a time; None if there is none."""
        index = bisect_right(starts, at) - 1
        return starts[index] if index >= 0 and at < starts[index] + self.length else None


class CallPrice(NamedTuple):
    """A call with its session, the tool that made it, and its price; None if that is unknown."""

    row: Row
    call: ModelCall
    tool: str
    cost: float | None


class CostSum(msgspec.Struct, kw_only=True):
    """The sum of some calls. `cost` covers those with a known price, and is None if there is none.

    `unpriced` counts the calls of models without a price; they are part of the tokens.
    """

    name: str
    calls: int = 0
    tokens: Tokens = Tokens()
    cost: float | None = None
    unpriced: int = 0
    row: Row | None = None  # by session
    start: int = 0  # by time, in seconds since 1970
    end: int = 0

    def plus(self, tokens: Tokens, cost: float | None, *, calls: int = 1, unpriced: int | None = None) -> CostSum:
        """Return the sum with one more call, or with several."""
        return msgspec.structs.replace(
            self,
            calls=self.calls + calls,
            tokens=self.tokens.plus(tokens),
            unpriced=self.unpriced + ((cost is None) if unpriced is None else unpriced),
            cost=self.cost if cost is None else (self.cost or 0.0) + cost,
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the entry for `--json`; the schema is stable. An unknown cost is null."""
        fields: dict[str, Any] = {"name": self.name, "calls": self.calls, **self.tokens._asdict()}
        fields |= {"total_tokens": self.tokens.total, "cost": _rounded(self.cost), "unpriced_calls": self.unpriced}
        if self.end:
            fields |= {"start": clock.from_epoch(self.start), "end": clock.from_epoch(self.end)}
        if self.row is not None:
            row = self.row
            fields |= {"session": row.id, "title": row.title, "tool": row.tool, "workspace": row.root}
        return fields


class CostReport(msgspec.Struct, kw_only=True):
    """The entries of one kind, their sum, the models, and those without a price with how often they were called."""

    by: str
    entries: list[CostSum]
    total: CostSum
    models: list[str]
    unpriced: dict[str, int]

    def as_dict(self) -> dict[str, Any]:
        """Return the report for `--json`; the schema is stable."""
        return {
            "by": self.by,
            "currency": "USD",
            "entries": [entry.as_dict() for entry in self.entries],
            "total": self.total.as_dict(),
            "unpriced_models": [{"model": name, "calls": count} for name, count in self.unpriced.items()],
        }


class Ledger:
    """The calls of all sessions of a listing with their prices, brought up to date when it is made."""

    def __init__(self, listing: Listing, prices: Prices, progress: Progress | None = None) -> None:
        self._listing, self._prices = listing, prices
        self._rows = listing.rows()
        self._calls = CallIndex(listing.index.database)
        self._calls.update(self._rows, listing.reachable_messages, progress, is_missing=listing.is_away)

    def calls(self, rows: Iterable[Row] | None = None, *, after: str = "", before: str = "") -> Iterable[CallPrice]:
        """Yield the calls of these sessions (None: all) between two timestamps, each of them once, in no order."""
        first, last = (clock.to_epoch(moment) or 0 if moment else 0 for moment in (after, before))
        for row, call in self._calls.calls(self._rows if rows is None else rows, after=first, before=last):
            tool = call.tool or row.tool or _own_program(row)
            yield CallPrice(row, call, tool, self._prices.cost(call.model, call.tokens, call.at, call.cost))

    def by_session(self, rows: Iterable[Row] | None = None) -> dict[tuple[str, str], CostSum]:
        """Return the sum of each session that made a call, by store and id."""
        sums: dict[tuple[str, str], CostSum] = {}
        for row, call, _, cost in self.calls(rows):
            entry = sums.get((row.root, row.id)) or CostSum(name=row.name, row=row)
            sums[row.root, row.id] = entry.plus(call.tokens, cost)
        return sums


class SessionCost(NamedTuple):
    """What one conversation cost. `copied` is the part of it that it has from an older one, such as its origin.

    Lists and reports count that part for the older one. It is known of conversations that were read for a report.
    """

    total: CostSum
    copied: CostSum

    @property
    def text(self) -> str:
        """The same for people."""
        total, copied = self
        spent = (
            f"{money(total.cost, total.unpriced)} for {total.tokens.total:,} tokens in {amount(total.calls, 'call')}"
        )
        if not copied.calls:
            return spent
        return f"{spent}, of which {money(copied.cost, copied.unpriced)} in the conversation it was copied from"


def session_cost(
    listing: Listing, root: str, session: Session, messages: Iterable[Message], prices: Prices
) -> SessionCost | None:
    """Return what the calls in one conversation cost; None without any."""
    return _summed(listing, (root, session.id, session.created_at), calls_in(messages), prices)


def row_cost(listing: Listing, row: Row, prices: Prices, *, most: int) -> SessionCost | None:
    """Return the same for a conversation of a list; None if it is long (`most` messages) and was not read before."""
    calls = CallIndex(listing.index.database).of(row)
    if calls is None and row.message_count <= most:
        calls = calls_in(listing.messages(row))
    return _summed(listing, (row.root, row.id, row.created_at), calls or {}, prices)


def _summed(
    listing: Listing, key: tuple[str, str, str], calls: dict[int, ModelCall], prices: Prices
) -> SessionCost | None:
    copied = CallIndex(listing.index.database).copied(calls, *key)
    total, part = CostSum(name="total"), CostSum(name="copied")
    for number, call in calls.items():
        cost = prices.cost(call.model, call.tokens, call.at, call.cost)
        total = total.plus(call.tokens, cost)
        part = part.plus(call.tokens, cost) if number in copied else part
    return SessionCost(total, part) if calls else None


def report(
    calls: Iterable[CallPrice],
    by: str,
    *,
    tool: str = "",
    model: str = "",
    everything: Iterable[CallPrice] | None = None,
    week_from: int = MONDAY,
) -> CostReport:
    """Return the sums of these calls by day, model and so on; `tool` (or several) and `model` leave out all others.

    `everything` are the calls that decide where windows begin (None: these calls); `week_from` is a moment at which the
    weekly window of a tool begins that does not record it.
    """
    if by not in KINDS:
        raise UsageError(f"unknown kind {by!r}", hint=f"use one of {', '.join(KINDS)}")
    calls = list(calls)
    wanted = [
        priced
        for priced in calls
        if (not tool or priced.tool in several(tool)) and (not model or priced.call.model == model)
    ]
    total = CostSum(name="total")
    unpriced: dict[str, int] = {}
    for _, call, _, cost in wanted:
        total = total.plus(call.tokens, cost)
        if cost is None:
            unpriced[call.model or UNKNOWN] = unpriced.get(call.model or UNKNOWN, 0) + 1
    if by in WINDOWS:
        entries = _windows(wanted, calls if everything is None else everything, None if by == "window" else week_from)
    else:
        entries = _grouped(wanted, by)
    ranked = dict(sorted(unpriced.items(), key=lambda pair: (-pair[1], pair[0])))
    models = sorted({priced.call.model for priced in wanted})
    return CostReport(by=by, entries=entries, total=total, models=models, unpriced=ranked)


def _grouped(calls: Iterable[CallPrice], by: str) -> list[CostSum]:
    entries: dict[object, CostSum] = {}
    for priced in calls:
        key, name, start, end = _place(priced, by)
        row = priced.row if by == "session" else None
        entry = entries.get(key) or CostSum(name=name, row=row, start=start, end=end)
        entries[key] = entry.plus(priced.call.tokens, priced.cost)
    if by in TIMES:
        return sorted(entries.values(), key=lambda entry: entry.name)
    return sorted(entries.values(), key=lambda entry: (-(entry.cost or 0), -entry.tokens.total, entry.name))


def _place(priced: CallPrice, by: str) -> tuple[object, str, int, int]:
    """Return the key and the name of the entry that a call belongs to, and when it begins and ends, for times."""
    row, call = priced.row, priced.call
    if by == "session":
        return (row.root, row.id), row.name, 0, 0
    if by in ("model", "tool", "project"):
        name = {"model": call.model, "tool": priced.tool, "project": row.project}[by] or UNKNOWN
        return name, name, 0, 0
    if not call.at:
        return UNKNOWN, UNKNOWN, 0, 0
    day = date.fromtimestamp(call.at)
    if by == "month":
        name = day.isoformat()[:7]
        return name, name, 0, 0
    if by == "week":
        day -= timedelta(days=day.weekday())
    after = day + timedelta(days=7 if by == "week" else 1)
    start, end = (clock.midnight(each.year, each.month, each.day) or 0 for each in (day, after))
    return day.isoformat(), day.isoformat(), start, end


def _windows(calls: Iterable[CallPrice], everything: Iterable[CallPrice], week_from: int | None) -> list[CostSum]:
    """Return the five-hour windows of each tool that these calls are in; with `week_from`, the weekly ones."""
    begun = LimitWindows(
        (
            WindowUse(tool, call.at, call.window_end if week_from is None else call.week_end)
            for _, call, tool, _ in everything
        ),
        week_from,
    )
    entries: dict[tuple[int, str], CostSum] = {}
    for priced in calls:
        if not priced.call.at:
            continue
        start = begun.start(priced.tool, priced.call.at)
        entry = entries.get((start, priced.tool))
        if entry is None:
            entry = CostSum(
                name=f"{clock.minute(start)} {priced.tool or UNKNOWN}", start=start, end=start + begun.length
            )
        entries[start, priced.tool] = entry.plus(priced.call.tokens, priced.cost)
    return [entries[key] for key in sorted(entries)]


def _own_program(row: Row) -> str:
    """Return our own program that held a session without an AI tool."""
    return {"spawn": "aur", "chat": "alfred"}.get(row.kind, "")


def _rounded(cost: float | None) -> float | None:
    return None if cost is None else round(cost, 6)
