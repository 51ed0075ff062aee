"""What was done when: messages by day and by model, and the files that were worked on, in all conversations.

Unlike the counts of the list (`stats`), which know only when a conversation was active last, these come from the
messages themselves. The logs are read when this is first asked for, and again if they changed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence

import msgspec

from cortext.index.activity import Activity, ActivityIndex, Said, UsedFile
from cortext.model import clock
from cortext.model.message import ASSISTANT, TOOL_CALL, TOOL_RESULT, Message, Part
from cortext.services.digest.calls import READ, command_in, files_of
from cortext.services.library.listing import Listing, Row
from cortext.services.library.stats import Tally

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
