"""Which transcript of which tool is kept in which session, and how far it was read.

Everything in it can be found again from the sessions themselves (they name their tool and its session id);
without it the next import only reads more.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable
from typing import Any, NamedTuple

from cortext.index.database import connect, remade, unwritable

# In place of a transcript's time of change: handed to a tool, and the user has not said anything there yet.
HANDED_OVER = -2
# Kept beside the reader's own cursor, in the same column.
_SINCE, _LAST, _NO_CURSOR = "(since)", "(last)", "(none)"


class Entry(NamedTuple):
    """What is known of one transcript.

    Where it was attached to a session after it had begun, `since` is the time of the last message that belongs
    elsewhere. `last` is the newest message of the session that this transcript knows of, by its id: what others
    append after it makes the next words of this one a branch.
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
        """Whether it was attached or handed to a tool, and nothing was said in it since."""
        return self.size < 0 or self.changed == HANDED_OVER


class Catalogue:
    """One per user, in the cache folder."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._connection = connect(folder)

    def get(self, tool: str, key: str) -> Entry | None:
        """What is known of a transcript."""
        rows = self._rows("SELECT * FROM transcript WHERE tool = ? AND key = ?", (tool, key))
        return _entry(rows[0]) if rows else None

    def all(self) -> dict[tuple[str, str], Entry]:
        """Everything, by tool and key: one query for an import of thousands."""
        return {(row[0], row[1]): _entry(row) for row in self._rows("SELECT * FROM transcript")}

    def _rows(self, query: str, values: tuple[str, ...] = ()) -> list[tuple[Any, ...]]:
        """What a query finds. A database that turns out to be damaged is made anew: nothing is known in it then."""
        try:
            return self._connection.execute(query, values).fetchall()
        except sqlite3.DatabaseError as error:
            if unwritable(error):
                raise
            self._connection.close()
            self._connection = remade(self._folder)
            return self._connection.execute(query, values).fetchall()

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
    kept = {_SINCE: entry.since, _LAST: entry.last}
    place = {**(entry.cursor or {_NO_CURSOR: True}), **{name: text for name, text in kept.items() if text}}
    return *entry[:6], None if place == {_NO_CURSOR: True} else json.dumps(place)


def _entry(row: tuple[Any, ...]) -> Entry:
    tool, key, root, session_id, size, changed, cursor = row
    place: dict[str, Any] = json.loads(cursor) if cursor else {_NO_CURSOR: True}
    since, last = place.pop(_SINCE, ""), place.pop(_LAST, "")
    return Entry(
        tool, key, root, session_id, size, changed, None if place.pop(_NO_CURSOR, False) else place, since, last
    )
