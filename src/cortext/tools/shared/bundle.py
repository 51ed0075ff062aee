"""A conversation that a tool keeps in rows of a database or in several files, copied as one file of lines.

The first line says which conversation it is; each other line is a row, or one of the tool's files. An adapter reads a
copy with the same code as the tool's own store: both are a stream of pieces.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import msgspec

from cortext.io import durable, new_files
from cortext.tools.base import Leftover, Transcript, TranscriptReading, Watch
from cortext.tools.shared.folders import of_project, transcript_of
from cortext.tools.shared.leftovers import Tables, renamed, stray_messages, table_leftovers, unlisted
from cortext.tools.shared.lines import derived_id, without_lone_surrogates
from cortext.tools.shared.reading import WholeReading
from cortext.tools.shared.sqlite import DAMAGED_DATABASE, connection, is_database, text_of

_BEGIN = b'{"cortext":'
_HEAD_BYTES = 1 << 16


class Piece(NamedTuple):
    """A row of a table, or a file (`values` has its text). Text and numbers only."""

    kind: str
    values: dict[str, Any]


class _Head(msgspec.Struct):
    tool: str = ""
    key: str = ""
    project: str = ""
    size: int = 0
    changed: int = 0


class _First(msgspec.Struct):
    cortext: _Head


class _CopyLine(msgspec.Struct):
    kind: str
    values: dict[str, Any]


_first_decoder = msgspec.json.Decoder(_First)
_line_decoder = msgspec.json.Decoder(_CopyLine)


def head_of(path: str) -> _Head | None:
    """Return what a copy says about itself; None if the file is not a copy."""
    try:
        with open(path, "rb", opener=durable.plain_file) as file:
            line = file.readline(_HEAD_BYTES)
        return _first_decoder.decode(line).cortext if line.startswith(_BEGIN) else None
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return None


class BundleTool:
    """The part of an adapter that copies conversations and reads copies. A subclass knows the tool's own store."""

    name: str

    def pieces(self, transcript: Transcript) -> Iterator[Piece]:
        """Yield the pieces of a conversation in the tool's own store, in a stable order."""
        raise NotImplementedError

    def reading(self, transcript: Transcript, pieces: Iterable[Piece]) -> TranscriptReading:
        """Return the reading of these pieces."""
        raise NotImplementedError

    def read(self, transcript: Transcript, cursor: dict[str, Any] | None = None) -> TranscriptReading:
        """Return a reading of the whole conversation: the format has no place to continue from."""
        is_copy = head_of(transcript.path) is not None
        return self.reading(transcript, pieces_in(transcript.path) if is_copy else self.pieces(transcript))

    def copy(self, transcript: Transcript, target: str, later: new_files.Later | None = None) -> None:
        """Copy the conversation to one file, unless that is up to date."""
        if head_of(transcript.path) is not None:
            new_files.mirror_file(transcript.path, target, later)
            return
        project = without_lone_surrogates(transcript.project)
        head = _Head(self.name, transcript.key, project, transcript.size, transcript.changed)
        if later is not None:
            new_files.new_file(target, self._encoded(head, transcript), later)
        elif head_of(target) != head:
            durable.replace_file(target, self._encoded(head, transcript))

    def _encoded(self, head: _Head, transcript: Transcript) -> Iterator[bytes]:
        yield msgspec.json.encode(_First(head)) + b"\n"
        for kind, values in self.pieces(transcript):
            yield msgspec.json.encode(_CopyLine(kind, values)) + b"\n"

    def copied_transcript(self, path: str) -> Transcript | None:
        """Return the conversation in a copy; None if the file is not a copy, or one of another tool."""
        head = head_of(path)
        if head is None or head.tool != self.name:
            return None
        return transcript_of(self.name, head.key, path, head.project, os.stat(path))


def pieces_in(path: str) -> Iterator[Piece]:
    """Yield the pieces in a copy."""
    with open(path, "rb", opener=durable.plain_file) as file:
        next(file, b"")
        for line in file:
            try:
                piece = _line_decoder.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                continue  # the copy was damaged: the messages are in the session anyway
            yield Piece(piece.kind, piece.values)


_DAMAGED = f"{DAMAGED_DATABASE}-"
_ERROR = "error"  # the kind of the only piece of a database that cannot be read


class RowTool(BundleTool):
    """An adapter for conversations in databases. A subclass knows where they are and what their tables mean."""

    title: str
    database_name: str  # of the files
    tables: ClassVar[Tables]  # those that are read, with the columns that each needs
    bookkeeping: Sequence[str] = ()  # tables that are known and not read
    beside: Sequence[str] = ()  # files of similar names that the program keeps in the same folder, and databases
    strays: Sequence[str] = ()  # statements that count the messages of no conversation that is listed

    def databases(self, project: str | None = None) -> Iterable[str]:
        """Return the paths of the tool's databases; some may not exist."""
        raise NotImplementedError

    def sessions(self, database: sqlite3.Connection, path: str) -> Iterator[Transcript]:
        """Yield the conversations of a database; none if its tables are not those of this tool."""
        raise NotImplementedError

    def rows(self, database: sqlite3.Connection, key: str) -> Iterator[Piece]:
        """Yield the rows of one conversation, in a stable order."""
        raise NotImplementedError

    def transcripts(self, project: str | None = None) -> Iterator[Transcript]:
        """Yield the conversations on this machine. A damaged database is listed as one, so that it is reported."""
        paths = (path for path in self.databases(project) if os.path.exists(path))
        return of_project((found for path in paths for found in self._listed(path)), project)

    def leftovers(self, listed: Sequence[Transcript]) -> Iterator[Leftover]:
        """Yield what may hold conversations and is not read: tables, messages of none, databases by other names."""
        paths = list(self.databases())
        for path in paths:
            if os.path.exists(path):
                yield from table_leftovers(path, self.tables, self.bookkeeping)
                yield from stray_messages(path, self.strays)
            beside = (os.path.join(os.path.dirname(path), name) for name in self.beside)
            known = [*paths, *(other for other in beside if not (other.endswith(".json") and is_database(other)))]
            yield from unlisted(renamed(path, known), listed, self.title)

    def transcripts_in(self, path: str) -> Iterator[Transcript]:
        """Yield every conversation of a database, wherever it is. A damaged one is this tool's if it has the name."""
        if is_database(path):
            is_named = os.path.basename(path) == self.database_name
            yield from (found for found in self._listed(path) if is_named or not found.key.startswith(_DAMAGED))

    def transcript_at(self, path: str) -> Transcript | None:
        """Return the conversation in a copy, or the only one of a database."""
        found = list(self.transcripts_in(path))
        return self.copied_transcript(path) or (found[0] if len(found) == 1 else None)

    def pieces(self, transcript: Transcript) -> Iterator[Piece]:
        """Yield the rows of a conversation, in one snapshot of the database."""
        try:
            if transcript.key.startswith(_DAMAGED):
                raise sqlite3.DatabaseError("the conversations in it cannot be listed")
            with connection(transcript.path) as database:
                database.text_factory = _text
                yield from self.rows(database, transcript.key)
        except sqlite3.Error as error:
            yield Piece(_ERROR, {"text": str(error)})

    def _listed(self, path: str) -> list[Transcript]:
        try:
            with connection(path) as database:
                database.text_factory = _text
                return list(self.sessions(database, path))
        except sqlite3.Error:
            return [transcript_of(self.name, _DAMAGED + derived_id(path), path, "", os.stat(path))]


class WatchedRowTool(RowTool):
    """The same for databases in which little else is written, so that they can be watched."""

    def watched(self) -> Watch:
        """Return the databases and their logs."""
        return Watch(files=[file for path in self.databases() for file in (path, f"{path}-wal")])

    def changed(self, path: str) -> list[Transcript]:
        """Return every conversation of the database: which of them changed is known by their fingerprints."""
        database = path.removesuffix("-wal")
        return self._listed(database) if database in self.databases() and os.path.exists(database) else []


class RowReading(WholeReading):
    """A reading of rows."""

    def __init__(self, transcript: Transcript, pieces: Iterable[Piece]) -> None:
        super().__init__(transcript)
        self._pieces = pieces

    def pieces(self) -> Iterator[Piece]:
        """Yield the rows; an error of the database is counted as damage, and ends them."""
        for piece in self._pieces:
            if piece.kind == _ERROR:
                self.damaged("database", text_of(piece.values.get("text")))
            else:
                yield piece


def query(database: sqlite3.Connection, kind: str, sql: str, values: Sequence[Any] = ()) -> Iterator[Piece]:
    """Yield the rows of a query as pieces: numbers and text."""
    cursor = database.execute(sql, values)
    names = [column[0] for column in cursor.description]
    for row in cursor:
        plain = (value.decode("utf-8", "replace") if isinstance(value, bytes) else value for value in row)
        yield Piece(kind, dict(zip(names, plain, strict=True)))


def _text(raw: bytes) -> str:
    """Decode a text column: one invalid character must not hide the row."""
    return raw.decode("utf-8", "replace")
