"""Tools that keep their conversations in SQLite databases: what their adapters share."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

from cortext.tools.base import Leftover, Transcript, Watch
from cortext.tools.shared.bundle import BundleTool, Piece
from cortext.tools.shared.folders import of_project, transcript_of
from cortext.tools.shared.leftovers import Tables, renamed, stray_messages, table_leftovers, unlisted
from cortext.tools.shared.lines import derived_id
from cortext.tools.shared.reading import WholeReading
from cortext.tools.shared.sqlite import DAMAGED_DATABASE, connection, is_database, text_of

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
