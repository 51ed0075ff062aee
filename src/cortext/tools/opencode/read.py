"""Find the sessions of OpenCode, and read one from the database, or from a document as `opencode export` makes it.

From the database, only what was added since the cursor is read. A reply that is still being written is left for the
next reading. One that has not changed for an hour is returned as it is, under a separate id, and again if it is
finished later. The same applies to messages that the user undid: OpenCode removes them with the next prompt.
"""

from __future__ import annotations

import heapq
import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import groupby
from operator import itemgetter
from typing import Any

from cortext.io import new_files
from cortext.model.message import Message
from cortext.tools.base import About, Counts, Leftover, Transcript, TranscriptReading, Watch
from cortext.tools.opencode.adapter import OpenCode, is_key
from cortext.tools.opencode.document import Document, descendants, head_of, images_in, keep, load, message_of
from cortext.tools.opencode.messages import MessageBuilder, Moments
from cortext.tools.opencode.records import MessageRecord
from cortext.tools.opencode.store import (
    BOOKKEEPING,
    TABLES,
    SessionRow,
    family,
    keys_in,
    removed,
    session_info,
    strays,
    transcripts,
)
from cortext.tools.opencode.version2 import Version2, has
from cortext.tools.shared.leftovers import files_below, is_empty, renamed, stray_messages, table_leftovers, unlisted
from cortext.tools.shared.lines import note, place
from cortext.tools.shared.parts import ToolPart
from cortext.tools.shared.sqlite import DAMAGED_DATABASE, connection, is_database, text_of, wal_is_live

_PIECES = ("message/", "part/", "share/")  # what belongs to a session, beside the sessions of the oldest versions
_STALE_MILLISECONDS = 3_600_000
_DEFAULT_TITLES = ("New session - ", "Child session - ")

_MESSAGES = """
SELECT id, time_created, time_updated, CAST(data AS BLOB) FROM message
WHERE session_id = ? AND (time_created, id) > (?, ?) ORDER BY time_created, id
"""
# All parts in the order of their messages, in one query: a query per message would cost more than decoding it.
_PARTS = """
SELECT part.message_id, part.id, CAST(part.data AS BLOB)
FROM message CROSS JOIN part ON part.message_id = message.id
WHERE message.session_id = ? AND (message.time_created, message.id) > (?, ?)
ORDER BY message.time_created, message.id
"""
_PARTS_CHANGED = "SELECT max(time_updated) FROM part WHERE message_id = ?"
_COUNT = "SELECT count(*) FROM message WHERE session_id = ? AND (time_created, id) <= (?, ?)"

_ID_AND_DATA = itemgetter(1, 2)

# The time and id of a message, and the number of messages up to it.
_Position = tuple[int, str, int]
_START: _Position = (-1, "", 0)


class OpenCodeReader(ToolPart[OpenCode]):
    """Finds, reads and copies the sessions."""

    def __init__(self, tool: OpenCode) -> None:
        super().__init__(tool)
        self.version2 = Version2()

    def transcripts(self, project: str | None = None) -> Iterator[Transcript]:
        """Yield its sessions on this machine, without those of side agents.

        A damaged database is listed as one transcript, so that reading it reports the damage.
        """
        keys: set[str] = set()
        for path in self.tool.folders.databases:
            try:
                found = self._listed(path, project)
            except sqlite3.Error:
                is_default = path == self.tool.folders.database
                key = DAMAGED_DATABASE if is_default else f"{DAMAGED_DATABASE}-{os.path.basename(path)}"
                found = [Transcript(tool=self.tool.name, key=key, path=path)]
            yield from (transcript for transcript in found if transcript.key not in keys)
            keys.update(transcript.key for transcript in found)

    def _listed(self, path: str, project: str | None = None, key: str = "") -> list[Transcript]:
        """Return the sessions of a database, of both versions; those of OpenCode 2 are out of date in older tables."""
        folders = None if project is None else {project, os.path.realpath(project)}
        new = [found for found in self.version2.listed(path) if key in ("", found.key)]
        keys = {found.key for found in new}
        old = transcripts(path, tool=self.tool.name, project=project, key=key)
        return [
            *(found for found in new if folders is None or found.project in folders),
            *(found for found in old if found.key not in keys),
        ]

    def is_version2(self, transcript: Transcript) -> bool:
        """Whether this is a session of OpenCode 2, in a database or in a copy."""
        if not is_database(transcript.path):
            return self.version2.copied_transcript(transcript.path) is not None
        return has(transcript.path, transcript.key)

    def leftovers(self, listed: Sequence[Transcript]) -> Iterator[Leftover]:
        """Yield what the databases have that is not read, other ones, and documents of versions before the database."""
        for path in self.tool.folders.databases:
            yield from table_leftovers(path, TABLES, BOOKKEEPING)
            yield from stray_messages(path, strays(path))
        others = renamed(os.path.join(self.tool.folders.data, "opencode.db"), self.tool.folders.databases)
        yield from unlisted(others, listed, self.tool.title)
        keys = {key for path in self.tool.folders.databases for key in keys_in(path)}
        for path in files_below(os.path.join(self.tool.folders.data, "storage", "session"), _PIECES):
            if os.path.basename(path).removesuffix(".json") not in keys and not is_empty(path):
                yield Leftover(path, "OpenCode has not moved this session into its database, which is what is read")

    def transcript_at(self, path: str) -> Transcript | None:
        """Return the transcript in a document (a kept copy or an export), or in a database; None if there is none.

        A session of a database is named as `FILE#ID`; the id may be omitted if it is the only one.
        """
        file, _, key = path.rpartition("#")
        if is_key(key) and is_database(file):
            return self._only_session(file, key)
        if is_database(path):
            return self._only_session(path)
        if (copied := self.version2.copied_transcript(path)) is not None:
            return copied
        info = head_of(path).info
        key = str(info.get("id") or "")
        if not is_key(key):
            return None
        status = os.stat(path)
        project = str(info.get("directory") or "")
        return Transcript(
            tool=self.tool.name, key=key, path=path, project=project, size=status.st_size, changed=status.st_mtime_ns
        )

    def _only_session(self, path: str, key: str = "") -> Transcript | None:
        try:
            found = self._listed(path, key=key)
        except sqlite3.Error:
            return None
        return found[0] if len(found) == 1 else None

    def watched(self) -> Watch:
        """Return the database and its log. Their folder also contains snapshots of projects, far too much to watch."""
        paths = dict.fromkeys([self.tool.folders.database, *self.tool.folders.databases])
        return Watch(files=[file for path in paths for file in (path, f"{path}-wal")])

    def changed(self, path: str) -> list[Transcript]:
        """Return every session if this is the database: which of them changed is known by their fingerprints."""
        return list(self.transcripts()) if path in self.watched().files else []

    def read(self, transcript: Transcript, cursor: dict[str, Any] | None = None) -> TranscriptReading:
        """Return a reading of the messages; with a cursor, only of those added since."""
        if self.is_version2(transcript):
            return self.version2.read(transcript)
        if is_database(transcript.path) or transcript.key.startswith(DAMAGED_DATABASE):
            return DatabaseReading(transcript, cursor)
        return DocumentReading(transcript)

    def copy(self, transcript: Transcript, target: str, later: new_files.Later | None = None) -> None:
        """Copy a session as a document for `opencode import`; a copy that is up to date is not rewritten.

        That of a session of OpenCode 2 has its rows.
        """
        if self.is_version2(transcript):
            self.version2.copy(transcript, target, later)
        elif is_database(transcript.path):
            keep(transcript.path, transcript.key, target, later)
        else:
            new_files.mirror_file(transcript.path, target, later)

    def images(self, transcript: Transcript, refs: AbstractSet[str]) -> dict[str, bytes]:
        """Return the bytes of those of these images that are in the transcript."""
        return images_in(transcript, refs)

    def rewinds(self, transcript: Transcript) -> int:
        """Return how many messages OpenCode has removed, because the user undid them."""
        return removed(transcript.path, transcript.key)


class DatabaseReading:
    """The messages of a session and of its side agents, in order of time."""

    def __init__(self, transcript: Transcript, cursor: dict[str, Any] | None = None) -> None:
        self.about = About(project=transcript.project)
        self.counts = Counts()
        self.cursor: dict[str, Any] | None = None
        self._transcript = transcript
        self._start_cursor = cursor
        self._positions: dict[str, _Position] = {}
        self._messages_were_removed = False
        self._has_invalid_row = False  # a cursor needs rows whose order is defined
        self._undone_from = ""  # the first message that the user undid

    def __iter__(self) -> Iterator[Message]:
        path = self._transcript.path
        live = wal_is_live(path)
        try:
            with connection(path) as database:
                yield from self._messages(database)
        except sqlite3.Error as error:
            note(self.counts.damaged, "database")
            place(self.counts, f"{path}: {error}", 0)
            self.cursor = self._start_cursor
            return
        # A process that opened the database meanwhile may have changed pages that we read: no cursor, read all again.
        if live == wal_is_live(path) and not self._has_invalid_row:
            positions = {key: list(value) for key, value in self._positions.items()}
            self.cursor = {"sessions": positions, "notes": self.about.notes}

    def _messages(self, database: sqlite3.Connection) -> Iterator[Message]:
        info = session_info(database, self._transcript.key)
        if not info:
            note(self.counts.damaged, "session not found")
            return
        fill_about(self.about, info)
        revert = info.get("revert")
        if isinstance(revert, dict):
            self._undone_from = str(revert.get("messageID") or "")
        builder = MessageBuilder(self._transcript.path, self.about, self.counts)
        members = family(database, self._transcript.key)
        starts = self._starts(database, members)
        if not self._messages_were_removed:
            self.about.notes = int((self._start_cursor or {}).get("notes") or 0)
        streams = [self._session_messages(database, member, starts[member.id], builder) for member in members]
        last = ""
        for _, messages in streams[0] if len(streams) == 1 else heapq.merge(*streams, key=itemgetter(0)):
            if self._messages_were_removed:
                # Messages that were read before are gone, so every message names its parent.
                for message in messages:
                    if not message.aside:
                        message.parent, last = last, message.id
            yield from messages

    def _starts(self, database: sqlite3.Connection, members: list[SessionRow]) -> dict[str, _Position]:
        """Return where to start in each session: after the cursor, if no message before it has been removed."""
        positions = (self._start_cursor or {}).get("sessions")
        starts = dict.fromkeys((member.id for member in members), _START)
        for key, saved in positions.items() if isinstance(positions, dict) else ():
            try:
                created, identity, count = int(saved[0]), str(saved[1]), int(saved[2])
            except (TypeError, ValueError, IndexError):
                continue
            if key not in starts:
                continue
            if database.execute(_COUNT, (key, created, identity)).fetchone()[0] == count:
                starts[key] = (created, identity, count)
            else:
                self._messages_were_removed = True
                return dict.fromkeys(starts, _START)
        return starts

    def _session_messages(
        self, database: sqlite3.Connection, member: SessionRow, start: _Position, builder: MessageBuilder
    ) -> Iterator[tuple[tuple[int, str], list[Message]]]:
        """Yield the messages of one session, record by record, with the time and id of each record."""
        position = self._positions[member.id] = start
        undone = hold_cursor = False
        parts = _Parts(database.execute(_PARTS, (member.id, start[0], start[1])))
        for identity, created, changed, data in database.execute(_MESSAGES, (member.id, start[0], start[1])):
            rows = parts.of(identity)
            if type(identity) is not str or type(created) is not int:  # SQLite accepts any value in any column
                note(self.counts.damaged, "row without a valid id or time")
                self._has_invalid_row = True
                identity, created = text_of(identity), created if type(created) is int else position[0]
            record = builder.records.message(identity, data, created)
            if record is None:
                position = (created, identity, position[2] + 1)
                continue
            undone = undone or identity == self._undone_from
            unfinished = is_unfinished(record, parts.has_parts)
            if undone or unfinished:
                if self._start_cursor if undone else _changed_recently(database, identity, changed):
                    break
                hold_cursor = hold_cursor or undone or not _has_later_message(database, member.id, created, identity)
            aside = member.aside or undone
            messages = builder.messages_of(member.id, identity, record, rows, aside=aside, partial=unfinished)
            if hold_cursor:
                give_separate_id(messages, "undone" if undone else "unfinished")
            else:
                position = (created, identity, position[2] + 1)
            yield (created, identity), messages
        self._positions[member.id] = position


def _has_later_message(database: sqlite3.Connection, session: str, created: int, identity: str) -> bool:
    return database.execute(_MESSAGES + " LIMIT 1", (session, created, identity)).fetchone() is not None


class _Parts:
    """Rows of parts, grouped by message, in the order of the query."""

    def __init__(self, rows: sqlite3.Cursor) -> None:
        self._groups = groupby(rows, itemgetter(0))
        self._next: Any = None
        self.has_parts = True

    def of(self, message: str) -> Iterator[tuple[str, bytes]]:
        """Return the parts of one message; call it for every message in turn, and consume each result first."""
        if self._next is None:
            self._next = next(self._groups, ("", ()))
        self.has_parts = self._next[0] == message
        if not self.has_parts:
            return iter(())
        rows, self._next = self._next[1], None
        return map(_ID_AND_DATA, rows)


def is_unfinished(record: MessageRecord, has_parts: bool) -> bool:
    """Whether OpenCode is still writing a message: a reply that is not completed, a prompt without parts."""
    if record.role == "assistant":
        return record.error is None and (record.time is None or record.time.completed is None)
    return not has_parts


def _changed_recently(database: sqlite3.Connection, identity: str, changed: int) -> bool:
    newest = database.execute(_PARTS_CHANGED, (identity,)).fetchone()[0] or 0
    return bool(max(newest, changed) > time.time() * 1000 - _STALE_MILLISECONDS)


def give_separate_id(messages: list[Message], reason: str) -> None:
    """Give messages that may return in another form separate ids, which name the reason."""
    for message in messages:
        message.id = f"{message.id}.{reason}"


def fill_about(about: About, info: dict[str, Any]) -> None:
    """Copy the title, project and time of creation from a session's record."""
    title = info.get("title")
    if isinstance(title, str) and not title.startswith(_DEFAULT_TITLES):
        about.title = title
    about.project = str(info.get("directory") or about.project)
    created = (info.get("time") or {}).get("created")
    if isinstance(created, int | float):
        about.created_at = Moments()(created)


class DocumentReading:
    """The messages of a document, a kept copy or an export; it has no cursor."""

    def __init__(self, transcript: Transcript) -> None:
        self.about = About(project=transcript.project)
        self.counts = Counts()
        self.cursor: dict[str, Any] | None = None
        self._transcript = transcript

    def __iter__(self) -> Iterator[Message]:
        builder = MessageBuilder(self._transcript.path, self.about, self.counts)
        document = load(self._transcript.path, self.counts)
        fill_about(self.about, document.info)
        streams = [self._session_messages(document, builder, aside=False)]
        streams += [self._session_messages(child, builder, aside=True) for child in descendants(document, self.counts)]
        for _, messages in streams[0] if len(streams) == 1 else heapq.merge(*streams, key=itemgetter(0)):
            yield from messages

    def _session_messages(
        self, document: Document, builder: MessageBuilder, *, aside: bool
    ) -> Iterator[tuple[tuple[float, str], list[Message]]]:
        session = str(document.info.get("id") or self._transcript.key)
        revert = document.info.get("revert")
        undone_from = str(revert.get("messageID") or "") if isinstance(revert, dict) else ""
        undone = False
        for raw in document.messages:
            pair = message_of(raw, self.counts)
            record = builder.records.message("", pair.info) if pair is not None else None
            if pair is None or record is None:
                continue
            undone = undone or (bool(undone_from) and record.id == undone_from)
            unfinished = is_unfinished(record, bool(pair.parts))
            messages = builder.messages_of(
                session,
                record.id,
                record,
                [("", part) for part in pair.parts],
                aside=aside or undone,
                partial=unfinished,
            )
            if undone:
                give_separate_id(messages, "undone")
            created = record.time.created if record.time is not None else None
            yield (created or 0.0, record.id), messages
