"""What was done when: messages by day and by model, the files that were worked on, and counts of the list of sessions.

The counts (`Stats`) know only when a conversation was active last; everything else comes from the messages themselves.
The logs are read when this is first asked for, and again if they changed.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, timedelta
from typing import NamedTuple

import msgspec

from cortext.index.activity import Activity, ActivityIndex, Said, UsedFile
from cortext.model import clock
from cortext.model.message import ASSISTANT, TOOL_CALL, TOOL_RESULT, Message, Part
from cortext.services.digest.calls import READ, command_in, files_of
from cortext.services.library.listing import Listing, Row

Count = dict[str, object]

NO_TOOL = "(none)"


class Tally(NamedTuple):
    """The number of sessions, and of the messages and tokens in them."""

    sessions: int = 0
    messages: int = 0
    tokens: int = 0

    def plus(self, row: Row) -> Tally:
        """Return the counts with one more session."""
        return Tally(self.sessions + 1, self.messages + row.message_count, self.tokens + row.token_count)

    def as_dict(self) -> Count:
        """Return the counts for `--json`."""
        return {"sessions": self.sessions, "messages": self.messages, "tokens": self.tokens}


class Stats:
    """The counts of these sessions; `days` are those of what was said on each day (see `activity.Work`)."""

    def __init__(self, rows: Sequence[Row], days: Mapping[str, Tally] | None = None) -> None:
        self.days = days or {}
        self.total = Tally()
        self.tools: dict[str, Tally] = {}
        self.types: dict[str, Tally] = {}
        self.statuses: dict[str, Tally] = {}
        self.projects: dict[str, Tally] = {}  # by folder; conversations without one are not counted
        for row in rows:
            self.total = self.total.plus(row)
            # A session without an AI tool was held in one of our own programs.
            _count(self.tools, row.tool or {"spawn": "aur", "chat": "alfred"}.get(row.kind, NO_TOOL), row)
            _count(self.types, row.type or row.kind, row)
            _count(self.statuses, row.status, row)
            if row.project:
                _count(self.projects, row.project, row)
        self.first = min((row.created_at for row in rows if row.created_at), default="")
        self.last = max((row.last_active for row in rows), default="")

    def as_dict(self) -> Count:
        """Return the statistics for `--json`; the schema is stable."""
        return {
            **self.total.as_dict(),
            "first": self.first,
            "last_active": self.last,
            "days": [{"day": day, **tally.as_dict()} for day, tally in self.days.items()],
            **{
                name: [{"name": key, **tally.as_dict()} for key, tally in ranked(table)]
                for name, table in (("tools", self.tools), ("types", self.types), ("statuses", self.statuses))
            },
        }


def _count(table: dict[str, Tally], name: str, row: Row) -> None:
    table[name] = table.get(name, Tally()).plus(row)


def last_days(count: int, found: Mapping[str, Tally], now: float | None = None) -> dict[str, Tally]:
    """Return the last days until today, the oldest first, each with what was found."""
    today = date.fromtimestamp(time.time() if now is None else now)
    names = ((today - timedelta(days=back)).isoformat() for back in range(count - 1, -1, -1))
    return {name: found.get(name) or Tally() for name in names}


def ranked(table: dict[str, Tally]) -> list[tuple[str, Tally]]:
    """Return the entries, the ones with the most sessions first."""
    return sorted(table.items(), key=lambda pair: (-pair[1].sessions, pair[0]))


Progress = Callable[[int, int], None]


class FileWork(msgspec.Struct, kw_only=True):
    """A file, and how often and in how many sessions it was changed and read."""

    path: str
    changed: int = 0
    read: int = 0
    sessions: int = 0
    last: str = ""  # the day on which it was used last


class Work(msgspec.Struct, kw_only=True):
    """The activity in sessions. A session counts on every day on which something was said in it."""

    days: dict[str, Tally]
    models: dict[str, Tally]
    files: list[FileWork]  # those that were changed most first


def work(listing: Listing, progress: Progress | None = None, only: Sequence[Row] | None = None) -> Work:
    """Return the activity in the sessions of a listing, which is up to date, or in some of them."""
    rows = listing.rows()
    index = ActivityIndex(listing.index.database)

    def read(row: Row) -> Activity | None:
        messages = listing.reachable_messages(row)
        return activity_in(messages) if messages is not None else None

    index.update(rows, read, progress, is_missing=listing.is_away)
    days: dict[str, Tally] = {}
    models: dict[str, Tally] = {}
    seen: set[tuple[str, str, str]] = set()
    rows = rows if only is None else [*only]
    for row, said in index.said(rows):
        day = said.day or clock.day(row.last_active)
        for table, name in ((days, day), (models, said.model)):
            if not name:
                continue
            sessions, messages, tokens = table.get(name, Tally())
            is_new = (name, row.root, row.id) not in seen
            seen.add((name, row.root, row.id))
            table[name] = Tally(sessions + is_new, messages + said.messages, tokens + said.tokens)
    return Work(days=days, models=models, files=_files(index.files(rows)))


def _files(used: Iterable[tuple[Row, UsedFile]]) -> list[FileWork]:
    found: dict[str, FileWork] = {}
    counted: set[tuple[str, str, str]] = set()
    for row, file in used:
        path = _whole(file.path, row.project)
        entry = found.setdefault(path, FileWork(path=path))
        entry.changed += file.changed
        entry.read += file.read
        entry.last = max(entry.last, file.last)
        if (path, row.root, row.id) not in counted:  # it may be named in several ways
            counted.add((path, row.root, row.id))
            entry.sessions += 1
    return sorted(found.values(), key=lambda entry: (-entry.changed, -entry.read, entry.path))


def _whole(path: str, project: str) -> str:
    """Return the path of a file that a session in this folder named."""
    return os.path.normpath(os.path.join(project, os.path.expanduser(path)))


def activity_in(messages: Iterable[Message]) -> Activity:
    """Return the activity in one session. Only calls that wait for their results are kept in memory."""
    said: dict[tuple[str, str], list[int]] = {}
    files: dict[str, UsedFile] = {}
    waiting: dict[str, tuple[Part, str]] = {}

    def note(call: Part, result: Part | None, day: str) -> None:
        for use in files_of(call, result, command_in(call.input)):
            known = files.get(use.path, UsedFile(use.path, 0, 0, ""))
            changed = use.state != READ
            files[use.path] = UsedFile(
                use.path, known.changed + changed, known.read + (not changed), max(known.last, day)
            )

    for message in messages:
        day = clock.day(message.timestamp)
        counts = said.setdefault((day, message.model if message.role == ASSISTANT else ""), [0, 0])
        counts[0] += 1
        counts[1] += message.tokens or 0
        for part in message.parts or ():
            if part.type == TOOL_CALL and part.id:
                waiting[part.id] = (part, day)
            elif part.type == TOOL_CALL:
                note(part, None, day)
            elif part.type == TOOL_RESULT and part.call_id in waiting:
                call, called = waiting.pop(part.call_id)
                note(call, part, called)
    for call, day in waiting.values():
        note(call, None, day)
    return Activity([Said(*key, *counts) for key, counts in said.items()], list(files.values()))
