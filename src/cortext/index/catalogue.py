"""Which transcript of which tool is kept in which session, and how far it was read.

Everything in it can be found again from the sessions themselves (they name their tool and its session id);
without it the next import only reads more.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from cortext.index.database import connect


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
        self._folder = folder
        self._connection = connect(folder)

    def get(self, tool: str, key: str) -> Entry | None:
        """What is known of a transcript."""
        row = self._connection.execute("SELECT * FROM transcript WHERE tool = ? AND key = ?", (tool, key)).fetchone()
        return _entry(row) if row else None

    def all(self) -> dict[tuple[str, str], Entry]:
        """Everything, by tool and key: one query for an import of thousands."""
        return {(row[0], row[1]): _entry(row) for row in self._connection.execute("SELECT * FROM transcript")}

    def put(self, entry: Entry) -> None:
        """Remember a transcript."""
        self._connection.execute("INSERT OR REPLACE INTO transcript VALUES (?, ?, ?, ?, ?, ?, ?)", _row(entry))

    def remove(self, tool: str, key: str) -> None:
        """Forget a transcript."""
        self._connection.execute("DELETE FROM transcript WHERE tool = ? AND key = ?", (tool, key))

    def put_all(self, entries: Iterable[Entry]) -> None:
        """Remember many at once."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            self._connection.executemany(
                "INSERT OR REPLACE INTO transcript VALUES (?, ?, ?, ?, ?, ?, ?)", map(_row, entries)
            )
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:  # a full disk has ended it already
                self._connection.execute("ROLLBACK")
            raise

    def close(self) -> None:
        """Let go of the database, before a fork or at the end."""
        self._connection.close()

    def reopen(self) -> None:
        """Take hold of it again: a connection does not survive a fork."""
        self._connection = connect(self._folder)


def _row(entry: Entry) -> tuple[Any, ...]:
    return *entry[:6], json.dumps(entry.cursor) if entry.cursor is not None else None


def _entry(row: tuple[Any, ...]) -> Entry:
    tool, key, root, session_id, size, changed, cursor = row
    return Entry(tool, key, root, session_id, size, changed, json.loads(cursor) if cursor else None)
