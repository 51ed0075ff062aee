"""What was done with each session, and is done again if it changed: tables filled from its log, and background chores.

Disposable like the rest of the catalogue: without the record of the chores, every session is checked once more, but no
work is repeated, because the results are in the sessions themselves.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from typing import Generic, TypeVar

from cortext.index.database import connect, in_memory, is_unwritable
from cortext.index.sessions import Row
from cortext.store.assistant import EMBED, SUMMARISE, Due

AT_ONCE = 200  # sessions per transaction

# One row per session, one column per chore: joining with `session` in key order costs a quarter of separate lookups.
_CHORES = """
CREATE TABLE IF NOT EXISTS care (root TEXT, id TEXT, embed TEXT, summarise TEXT, PRIMARY KEY (root, id)) WITHOUT ROWID
"""
_DUE = """
SELECT session.id, session.signs, session.last_active FROM session NOT INDEXED
LEFT JOIN care ON care.root = session.root AND care.id = session.id
WHERE session.root = ? AND session.message_count > 0 AND session.damage = 0 AND care.{chore} IS NOT session.signs
"""
_SETTLED = """
INSERT INTO care (root, id, {chore}) VALUES (?, ?, ?) ON CONFLICT (root, id) DO UPDATE SET {chore} = excluded.{chore}
"""

Result = TypeVar("Result")
Progress = Callable[[int, int], None]


class Derived(Generic[Result]):
    """What is known of the sessions of a catalogue in some tables.

    `sessions` is the table of the sessions that were read: number, root, id, fingerprint and time of creation. The
    rows of the others begin with that number. `create` makes the tables if they do not exist.
    """

    def __init__(
        self, database: sqlite3.Connection, sessions: str, tables: Sequence[str], create: Sequence[str] = ()
    ) -> None:
        self._database = database
        self._sessions, self._tables, self._create = sessions, tables, create

    @property
    def database(self) -> sqlite3.Connection:
        """The catalogue, or one in memory if it cannot be written."""
        return self._database

    def update(
        self,
        rows: Iterable[Row],
        read: Callable[[Row], Result | None],
        put: Callable[[Sequence[tuple[int, Result]]], None],
        progress: Progress | None = None,
        is_missing: Callable[[str], bool] = lambda root: False,
    ) -> None:
        """Read the sessions that changed, and forget those that are not among the rows.

        `read` returns None for a session that cannot be read now, and `is_missing` says which stores cannot: what is
        known of them is kept. `put` stores what was read, by the numbers of the sessions. If the catalogue cannot be
        written (a read-only disk), everything is read into memory instead.
        """
        rows = list(rows)
        try:
            self._update(rows, read, put, progress, is_missing)
        except sqlite3.DatabaseError as error:
            if not is_unwritable(error):
                raise
            if self._database.in_transaction:
                self._database.rollback()
            self._database = in_memory()
            self._update(rows, read, put, progress, is_missing)

    def numbers(self, rows: Iterable[Row]) -> dict[int, Row]:
        """Return these sessions by their numbers, as far as they were read."""
        sessions = {(row.root, row.id): row for row in rows}
        known = self._database.execute(f"SELECT number, root, id FROM {self._sessions}")
        return {number: row for number, root, name in known if (row := sessions.get((root, name))) is not None}

    def number(self, row: Row) -> int | None:
        """Return the number of a session; None if it was not read since it changed."""
        query = f"SELECT number FROM {self._sessions} WHERE root = ? AND id = ? AND fingerprint = ?"
        known = self._database.execute(query, (row.root, row.id, _fingerprint(row))).fetchone()
        return known[0] if known is not None else None

    def _update(
        self,
        rows: Iterable[Row],
        read: Callable[[Row], Result | None],
        put: Callable[[Sequence[tuple[int, Result]]], None],
        progress: Progress | None,
        is_missing: Callable[[str], bool],
    ) -> None:
        for statement in self._create:
            self._database.execute(statement)
        stored = {
            (root, name): (number, fingerprint)
            for number, root, name, fingerprint in self._database.execute(
                f"SELECT number, root, id, fingerprint FROM {self._sessions}"
            )
        }
        existing = {(row.root, row.id): row for row in rows}
        gone = [(number,) for key, (number, _) in stored.items() if key not in existing and not is_missing(key[0])]
        if gone:
            self._database.execute("BEGIN IMMEDIATE")
            for table in (*self._tables, self._sessions):
                self._database.executemany(f"DELETE FROM {table} WHERE number = ?", gone)
            self._database.execute("COMMIT")
        changed = [row for key, row in existing.items() if stored.get(key, (0, ""))[1] != _fingerprint(row)]
        for start in range(0, len(changed), AT_ONCE):
            found = []
            for done, row in enumerate(changed[start : start + AT_ONCE], start + 1):
                result = read(row)
                if result is not None:
                    found.append((row, result))
                if progress:
                    progress(done, len(changed))
            self._database.execute("BEGIN IMMEDIATE")
            put([(self._renew(row), result) for row, result in found])
            self._database.execute("COMMIT")

    def _renew(self, row: Row) -> int:
        """Return the number of a session, without what was stored for it."""
        number: int = self._database.execute(
            f"INSERT INTO {self._sessions} (root, id, fingerprint, created_at) VALUES (?, ?, ?, ?) "
            "ON CONFLICT (root, id) DO UPDATE SET fingerprint = excluded.fingerprint, created_at = excluded.created_at "
            "RETURNING number",
            (row.root, row.id, _fingerprint(row), row.created_at),
        ).fetchone()[0]
        for table in self._tables:
            self._database.execute(f"DELETE FROM {table} WHERE number = ?", (number,))
        return number


def _fingerprint(row: Row) -> str:
    """Return what changes with the log of a session, in a store of any kind."""
    return f"{row.line_count} {row.token_count} {row.last_active} {row.path}"


class BackgroundJobs:
    """The jobs that are due in the sessions of one store."""

    def __init__(self, folder: str, root: str) -> None:
        self._database: sqlite3.Connection = connect(folder)
        self._database.execute(_CHORES)
        self._root = root

    def due(self, chore: str) -> list[Due]:
        """Return the sessions whose files changed since this chore was last recorded as done, the oldest first."""
        found = map(Due._make, self._database.execute(_DUE.format(chore=_checked(chore)), (self._root,)))
        return sorted(found, key=lambda due: due.last_active)

    def settled(self, chore: str, session: Due) -> None:
        """Record that this chore is done, for as long as the session's files keep this fingerprint."""
        self._database.execute(_SETTLED.format(chore=_checked(chore)), (self._root, session.id, session.signs))

    def close(self) -> None:
        """Close the database."""
        self._database.close()


def _checked(chore: str) -> str:
    """Return a valid column name; nothing else is ever put into a query."""
    if chore not in (EMBED, SUMMARISE):
        raise ValueError(chore)
    return chore
