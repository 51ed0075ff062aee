"""The catalogue: which transcript of which tool is kept in which session, and how far it was read.

SQLite in WAL mode, so that many processes may use it at once. Everything in it can be found again from the
sessions themselves (they name their tool and its session id); without it the next import only reads more.
"""

from __future__ import annotations

import json
import os
import sqlite3
from typing import Any, NamedTuple

from cortext import fsio

SCHEMA = 1


class Entry(NamedTuple):
    """What is known of one transcript."""

    tool: str
    key: str
    root: str  # the store's folder
    session_id: str
    size: int = -1
    changed: int = -1
    cursor: dict[str, Any] | None = None


class Catalogue:
    """One per user, in the cache folder."""

    def __init__(self, folder: str) -> None:
        fsio.ensure_folder(folder)
        self.path = os.path.join(folder, "catalogue.db")
        self._connection = self._open()

    def _open(self) -> sqlite3.Connection:
        try:
            return self._connect()
        except sqlite3.DatabaseError:
            # Not a database any more, or one of a later version: it is only a cache, so begin anew.
            for suffix in ("", "-wal", "-shm"):
                fsio.remove(self.path + suffix)
            return self._connect()

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self.path, timeout=10, isolation_level=None)
        os.chmod(self.path, fsio.FILE_MODE)
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version > SCHEMA:
            connection.close()
            raise sqlite3.DatabaseError("a later version")
        connection.execute(
            "CREATE TABLE IF NOT EXISTS transcript (tool TEXT, key TEXT, root TEXT, session_id TEXT, size INTEGER, "
            "changed INTEGER, cursor TEXT, PRIMARY KEY (tool, key)) WITHOUT ROWID"
        )
        connection.execute(f"PRAGMA user_version = {SCHEMA}")
        return connection

    def get(self, tool: str, key: str) -> Entry | None:
        """What is known of a transcript."""
        row = self._connection.execute("SELECT * FROM transcript WHERE tool = ? AND key = ?", (tool, key)).fetchone()
        return _entry(row) if row else None

    def all(self) -> dict[tuple[str, str], Entry]:
        """Everything, by tool and key: one query for an import of thousands."""
        return {(row[0], row[1]): _entry(row) for row in self._connection.execute("SELECT * FROM transcript")}

    def put(self, entry: Entry) -> None:
        """Remember a transcript."""
        cursor = json.dumps(entry.cursor) if entry.cursor is not None else None
        self._connection.execute("INSERT OR REPLACE INTO transcript VALUES (?, ?, ?, ?, ?, ?, ?)", (*entry[:6], cursor))

    def close(self) -> None:
        self._connection.close()


def _entry(row: tuple[Any, ...]) -> Entry:
    tool, key, root, session_id, size, changed, cursor = row
    return Entry(tool, key, root, session_id, size, changed, json.loads(cursor) if cursor else None)
