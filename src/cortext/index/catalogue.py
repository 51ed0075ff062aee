"""Which tool transcript belongs to which session, and how far it has been read.

Everything here can be rebuilt from the sessions themselves, which name their tool and its session id. Without the
catalogue the next import only reads more.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from typing import Any, NamedTuple

from cortext.index.database import connect, is_misuse, is_unwritable, recreate

# Stored instead of a transcript's mtime: handed to a tool, and the user has not written anything there yet.
HANDED_OVER = -2
# Stored in the cursor column, next to the reader's own cursor.
_SINCE, _LAST, _NO_CURSOR = "(since)", "(last)", "(none)"


class Entry(NamedTuple):
    """What the catalogue knows about one transcript.

    If the transcript was attached to a session after it had begun, `since` is the timestamp of the last message that
    belongs elsewhere. `last` is the id of the newest message of the session that this transcript contains: if others
    append after it, the transcript's next message starts a branch.
    """

    tool: str
    key: str
    root: str  # the store's folder
    session_id: str
    size: int = -1
    changed: int = -1
    cursor: dict[str, Any] | None = None
    since: str = ""
    last: str = ""

    @property
    def fresh(self) -> bool:
        """Whether it was attached or handed to a tool and nothing has been said in it since."""
        return self.size < 0 or self.changed == HANDED_OVER


class Catalogue:
    """The transcript catalogue: one per user, in the cache folder."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._connection = connect(folder)

    def get(self, tool: str, key: str) -> Entry | None:
        """Return the entry of a transcript, or None."""
        rows = self._rows("SELECT * FROM transcript WHERE tool = ? AND key = ?", (tool, key))
        return _entry(rows[0]) if rows else None

    def all(self) -> dict[tuple[str, str], Entry]:
        """Return all entries by tool and key: one query for an import of thousands."""
        return {(row[0], row[1]): _entry(row) for row in self._rows("SELECT * FROM transcript")}

    def of_session(self, root: str, session_id: str) -> list[Entry]:
        """Return the entries of the transcripts that are in one session."""
        found = self._rows("SELECT * FROM transcript WHERE root = ? AND session_id = ?", (root, session_id))
        return [_entry(row) for row in found]

    def _rows(self, query: str, values: tuple[str, ...] = ()) -> list[tuple[Any, ...]]:
        """Run a query. A database that turns out to be damaged is recreated, and the result is then empty."""
        try:
            return self._connection.execute(query, values).fetchall()
        except sqlite3.DatabaseError as error:
            if is_unwritable(error) or is_misuse(error):
                raise
            self._connection.close()
            self._connection = recreate(self._folder)
            return self._connection.execute(query, values).fetchall()

    def put(self, entry: Entry) -> None:
        """Store the entry of a transcript."""
        self._connection.execute("INSERT OR REPLACE INTO transcript VALUES (?, ?, ?, ?, ?, ?, ?)", _row(entry))

    def remove(self, tool: str, key: str) -> None:
        """Remove the entry of a transcript."""
        self._connection.execute("DELETE FROM transcript WHERE tool = ? AND key = ?", (tool, key))

    def put_all(self, entries: Iterable[Entry]) -> None:
        """Store many entries in one transaction."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            self._connection.executemany(
                "INSERT OR REPLACE INTO transcript VALUES (?, ?, ?, ?, ?, ?, ?)", map(_row, entries)
            )
            self._connection.execute("COMMIT")
        except BaseException:
            if self._connection.in_transaction:  # a full disk has already ended the transaction
                self._connection.execute("ROLLBACK")
            raise

    def close(self) -> None:
        """Close the database, before a fork or when done."""
        self._connection.close()

    def reopen(self) -> None:
        """Open a new connection: one does not survive a fork."""
        self._connection = connect(self._folder)


def _row(entry: Entry) -> tuple[Any, ...]:
    extra = {_SINCE: entry.since, _LAST: entry.last}
    cursor = {**(entry.cursor or {_NO_CURSOR: True}), **{name: text for name, text in extra.items() if text}}
    return *entry[:6], None if cursor == {_NO_CURSOR: True} else json.dumps(cursor)


def _entry(row: tuple[Any, ...]) -> Entry:
    tool, key, root, session_id, size, changed, raw = row
    cursor: dict[str, Any] = json.loads(raw) if raw else {_NO_CURSOR: True}
    since, last = cursor.pop(_SINCE, ""), cursor.pop(_LAST, "")
    return Entry(
        tool, key, root, session_id, size, changed, None if cursor.pop(_NO_CURSOR, False) else cursor, since, last
    )
