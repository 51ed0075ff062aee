"""The adapter for Cursor, the editor: its databases, which are those of Visual Studio Code with tables of its own.

Conversations are in the database of all projects: one row for each conversation (`composerData:ID`), and one for each
message (`bubbleId:ID:MESSAGE`). Older versions kept them in the database of each project; those are read too.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, ClassVar

from cortext.tools.base import Leftover, Transcript, TranscriptReading
from cortext.tools.shared.bundle import Piece
from cortext.tools.shared.leftovers import Tables
from cortext.tools.shared.local import LocalTool
from cortext.tools.shared.rows import RowTool

if TYPE_CHECKING:
    import sqlite3


class Cursor(RowTool, LocalTool):
    """The adapter for Cursor; it only reads."""

    name = "cursor"
    title = "Cursor"
    tested_version = ""
    command = "cursor"
    database_name = "state.vscdb"
    proof = "samples"
    beside = ("state.vscdb.backup",)
    tables: ClassVar[Tables] = {"cursorDiskKV": ("key", "value"), "ItemTable": ("key", "value")}

    def databases(self, project: str | None = None) -> Iterable[str]:
        """Return the database of all projects, and that of each."""
        from cortext.tools.cursor.store import databases_in
        from cortext.tools.shared.vscode import user_folders

        return [path for user in user_folders(self.home, self.environ, ("Cursor",)) for path in databases_in(user)]

    def leftovers(self, listed: Sequence[Transcript]) -> Iterator[Leftover]:
        """Yield the tables, and in those that are known the keys and records, that may hold what was said."""
        from cortext.tools.cursor.unread import leftovers_in

        yield from super().leftovers(listed)
        for path in self.databases():
            if os.path.exists(path):
                yield from leftovers_in(path, {found.key for found in listed if found.path == path})

    def sessions(self, database: sqlite3.Connection, path: str) -> Iterator[Transcript]:
        """Yield the conversations of one database."""
        from cortext.tools.cursor.store import sessions

        return sessions(database, path, self.name)

    def rows(self, database: sqlite3.Connection, key: str) -> Iterator[Piece]:
        """Yield the rows of one conversation."""
        from cortext.tools.cursor.store import rows

        return rows(database, key)

    def reading(self, transcript: Transcript, pieces: Iterable[Piece]) -> TranscriptReading:
        """Return the messages in these rows."""
        from cortext.tools.cursor.read import CursorReading

        return CursorReading(transcript, pieces)
