"""Reading an OpenCode session: out of the database, or out of a document in the shape of `opencode export`.

Out of the database only what was added since the cursor is read. A reply that is still being written is left for
the next reading; one that nobody has touched for an hour is given as it stands, under an id of its own, and given
again should it be finished after all. The same goes for what the user undid: OpenCode removes it with the next prompt.
"""

from __future__ import annotations

import heapq
import sqlite3
import time
from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any

from cortext.model.message import Message
from cortext.tools.base import About, Counts, Transcript
from cortext.tools.opencode.document import Document, descendants, load, message_of
from cortext.tools.opencode.messages import Maker, Moments
from cortext.tools.opencode.records import MessageRecord
from cortext.tools.opencode.store import SessionRow, connection, family, session_info, text_of, wal_is_live
from cortext.tools.shared.lines import note, place

_STALE_MILLISECONDS = 3_600_000
_DEFAULT_TITLES = ("New session - ", "Child session - ")

_MESSAGES = """
SELECT id, time_created, time_updated, CAST(data AS BLOB) FROM message
WHERE session_id = ? AND (time_created, id) > (?, ?) ORDER BY time_created, id
"""
# All parts in the order of their messages: one query, where one a message would cost more than its decoding.
_PARTS = """
SELECT part.message_id, part.id, CAST(part.data AS BLOB)
FROM message CROSS JOIN part ON part.message_id = message.id
WHERE message.session_id = ? AND (message.time_created, message.id) > (?, ?)
ORDER BY message.time_created, message.id
"""
_PARTS_CHANGED = "SELECT max(time_updated) FROM part WHERE message_id = ?"
_COUNT = "SELECT count(*) FROM message WHERE session_id = ? AND (time_created, id) <= (?, ?)"

_ID_AND_DATA = itemgetter(1, 2)

# The time and id of a message, and how many there are up to it.
_Place = tuple[int, str, int]
_START: _Place = (-1, "", 0)


class DatabaseReading:
    """The messages of a session and, beside them, of its side agents, in the order of time."""

    def __init__(self, transcript: Transcript, cursor: dict[str, Any] | None = None) -> None:
        self.about = About(project=transcript.project)
        self.counts = Counts()
        self.cursor: dict[str, Any] | None = None
        self._transcript = transcript
        self._given = cursor
        self._places: dict[str, _Place] = {}
        self._follow_on = False
        self._odd = False  # a place in the order of rows that cannot be compared is no cursor
        self._undone = ""

    def __iter__(self) -> Iterator[Message]:
        path = self._transcript.path
        live = wal_is_live(path)
        try:
            with connection(path) as database:
                yield from self._messages(database)
        except sqlite3.Error as error:
            note(self.counts.damaged, "database")
            place(self.counts, f"{path}: {error}", 0)
            self.cursor = self._given
            return
        # A program that came meanwhile may have changed pages under us: the next reading reads all again.
        if live == wal_is_live(path) and not self._odd:
            self.cursor = {"sessions": {key: list(value) for key, value in self._places.items()}}

    def _messages(self, database: sqlite3.Connection) -> Iterator[Message]:
        info = session_info(database, self._transcript.key)
        if not info:
            note(self.counts.damaged, "session is not there")
            return
        introduce(self.about, info)
        revert = info.get("revert")
        if isinstance(revert, dict):
            self._undone = str(revert.get("messageID") or "")
        maker = Maker(self._transcript.path, self.about, self.counts)
        members = family(database, self._transcript.key)
        starts = self._starts(database, members)
        ways = [self._of_session(database, member, starts[member.id], maker) for member in members]
        last = ""
        for _, messages in ways[0] if len(ways) == 1 else heapq.merge(*ways, key=itemgetter(0)):
            if self._follow_on:
                # Messages that were read before are gone: the way through the rest is told in full.
                for message in messages:
                    if not message.aside:
                        message.parent, last = last, message.id
            yield from messages

    def _starts(self, database: sqlite3.Connection, members: list[SessionRow]) -> dict[str, _Place]:
        """Where to begin in each session: after the cursor, if everything up to there is still as it was."""
        given = (self._given or {}).get("sessions")
        starts = dict.fromkeys((member.id for member in members), _START)
        for key, where in given.items() if isinstance(given, dict) else ():
            try:
                created, identity, count = int(where[0]), str(where[1]), int(where[2])
            except (TypeError, ValueError, IndexError):
                continue
            if key not in starts:
                continue
            if database.execute(_COUNT, (key, created, identity)).fetchone()[0] == count:
                starts[key] = (created, identity, count)
            else:
                self._follow_on = True
                return dict.fromkeys(starts, _START)
        return starts

    def _of_session(
        self, database: sqlite3.Connection, member: SessionRow, start: _Place, maker: Maker
    ) -> Iterator[tuple[tuple[int, str], list[Message]]]:
        """The messages of one session, those of each record with the place of that record."""
        reached = self._places[member.id] = start
        undone = holding = False
        parts = _Parts(database.execute(_PARTS, (member.id, start[0], start[1])))
        for identity, created, changed, data in database.execute(_MESSAGES, (member.id, start[0], start[1])):
            rows = parts.of(identity)
            if type(identity) is not str or type(created) is not int:  # SQLite takes any value in any column
                note(self.counts.damaged, "row without a proper id or time")
                self._odd = True
                identity, created = text_of(identity), created if type(created) is int else reached[0]
            record = maker.records.message(identity, data, created)
            if record is None:
                reached = (created, identity, reached[2] + 1)
                continue
            undone = undone or identity == self._undone
            unfinished = is_unfinished(record, parts.there)
            if undone or unfinished:
                if self._given if undone else _is_fresh(database, identity, changed):
                    break
                holding = holding or undone or not _has_later(database, member.id, created, identity)
            aside = member.aside or undone
            messages = maker.made(member.id, identity, record, rows, aside=aside, partial=unfinished)
            if holding:
                set_apart(messages, "undone" if undone else "unfinished")
            else:
                reached = (created, identity, reached[2] + 1)
            yield (created, identity), messages
        self._places[member.id] = reached


def _has_later(database: sqlite3.Connection, session: str, created: int, identity: str) -> bool:
    return database.execute(_MESSAGES + " LIMIT 1", (session, created, identity)).fetchone() is not None


class _Parts:
    """Rows of parts, taken message by message in the order in which they come."""

    def __init__(self, rows: sqlite3.Cursor) -> None:
        self._groups = groupby(rows, itemgetter(0))
        self._next: Any = None
        self.there = True

    def of(self, message: str) -> Iterator[tuple[str, bytes]]:
        """The parts of one message: to be asked for every message in turn, and used before the next is asked for."""
        if self._next is None:
            self._next = next(self._groups, ("", ()))
        self.there = self._next[0] == message
        if not self.there:
            return iter(())
        rows, self._next = self._next[1], None
        return map(_ID_AND_DATA, rows)


def is_unfinished(record: MessageRecord, has_parts: bool) -> bool:
    """Whether OpenCode is not done with a message: a reply without its end, a prompt without its words."""
    if record.role == "assistant":
        return record.error is None and (record.time is None or record.time.completed is None)
    return not has_parts


def _is_fresh(database: sqlite3.Connection, identity: str, changed: int) -> bool:
    newest = database.execute(_PARTS_CHANGED, (identity,)).fetchone()[0] or 0
    return bool(max(newest, changed) > time.time() * 1000 - _STALE_MILLISECONDS)


def set_apart(messages: list[Message], why: str) -> None:
    """Give messages that may come back in another form ids of their own, outside the talk."""
    for message in messages:
        message.id = f"{message.id}.{why}"
        message.extra = {**(message.extra or {}), why: True}


def introduce(about: About, info: dict[str, Any]) -> None:
    """What a session's own record says about it."""
    title = info.get("title")
    if isinstance(title, str) and not title.startswith(_DEFAULT_TITLES):
        about.title = title
    about.project = str(info.get("directory") or about.project)
    created = (info.get("time") or {}).get("created")
    if isinstance(created, int | float):
        about.created_at = Moments()(created)


class DocumentReading:
    """The messages of a document: a kept copy, or what `opencode export` gave. There is no cursor in it."""

    def __init__(self, transcript: Transcript) -> None:
        self.about = About(project=transcript.project)
        self.counts = Counts()
        self.cursor: dict[str, Any] | None = None
        self._transcript = transcript

    def __iter__(self) -> Iterator[Message]:
        maker = Maker(self._transcript.path, self.about, self.counts)
        document = load(self._transcript.path, self.counts)
        introduce(self.about, document.info)
        ways = [self._of_session(document, maker, aside=False)]
        ways += [self._of_session(child, maker, aside=True) for child in descendants(document, self.counts)]
        for _, messages in ways[0] if len(ways) == 1 else heapq.merge(*ways, key=itemgetter(0)):
            yield from messages

    def _of_session(
        self, document: Document, maker: Maker, *, aside: bool
    ) -> Iterator[tuple[tuple[float, str], list[Message]]]:
        session = str(document.info.get("id") or self._transcript.key)
        revert = document.info.get("revert")
        undo = str(revert.get("messageID") or "") if isinstance(revert, dict) else ""
        undone = False
        for raw in document.messages:
            pair = message_of(raw, self.counts)
            record = maker.records.message("", pair.info) if pair is not None else None
            if pair is None or record is None:
                continue
            undone = undone or (bool(undo) and record.id == undo)
            unfinished = is_unfinished(record, bool(pair.parts))
            messages = maker.made(
                session,
                record.id,
                record,
                [("", part) for part in pair.parts],
                aside=aside or undone,
                partial=unfinished,
            )
            if undone:
                set_apart(messages, "undone")
            created = record.time.created if record.time is not None else None
            yield (created or 0.0, record.id), messages
