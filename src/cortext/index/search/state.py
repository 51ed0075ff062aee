"""How far the search index is: each session's key, the last message indexed, and the vector files.

A small SQLite database next to the index, flushed at every step, so that it never claims more than is true. Keys are
never reused, so what a file still holds under an old key belongs to no session.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from cortext.index.database import open_database


class IndexedSession(NamedTuple):
    """What the index knows about one session."""

    key: int
    root: str
    id: str
    indexed: int  # the number after the last indexed message
    digest: int  # of the texts of all indexed messages
    signs: str  # the fingerprint of the log's files
    changed: int  # the batch of the session list that this was indexed from
    name: str


class SegmentFile(NamedTuple):
    """A file of vectors."""

    file: str
    vectors: int


_TABLES = """
CREATE TABLE IF NOT EXISTS session (
    key INTEGER PRIMARY KEY AUTOINCREMENT, root TEXT, id TEXT, indexed INTEGER, digest INTEGER, signs TEXT,
    changed INTEGER, name TEXT, UNIQUE (root, id)
);
-- What `session` will contain after the commit that is in progress.
CREATE TABLE IF NOT EXISTS pending (
    indexed INTEGER, digest INTEGER, signs TEXT, changed INTEGER, name TEXT, key INTEGER PRIMARY KEY
);
-- Keys whose messages are still in the index and must be removed.
CREATE TABLE IF NOT EXISTS retired (key INTEGER PRIMARY KEY);
CREATE TABLE IF NOT EXISTS embedded (model TEXT, key INTEGER, next INTEGER, PRIMARY KEY (model, key)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS segment (model TEXT, file TEXT, count INTEGER, PRIMARY KEY (model, file)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS fact (name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
"""
_COLUMNS = "key, root, id, indexed, digest, signs, changed, name"


class IndexState:
    """The database in this folder."""

    def __init__(self, folder: str) -> None:
        path = os.path.join(folder, "state.db")
        is_new = not os.path.exists(path)
        self.connection = open_database(path)
        if is_new:
            self.connection.execute("PRAGMA journal_mode = WAL")
            self.connection.executescript(_TABLES)
        self.connection.execute("PRAGMA synchronous = FULL")

    def fact(self, name: str, default: str = "") -> str:
        """Return a named value."""
        row = self.connection.execute("SELECT value FROM fact WHERE name = ?", (name,)).fetchone()
        return row[0] if row else default

    def set_facts(self, **facts: str) -> None:
        """Store named values."""
        self.connection.executemany("INSERT OR REPLACE INTO fact VALUES (?, ?)", facts.items())

    def another_list(self, name: str) -> None:
        """Switch to a different session list, which numbers its batches from the beginning."""
        self.begin()
        self.connection.execute("UPDATE session SET changed = -1")
        self.connection.execute("UPDATE pending SET changed = -1")
        self.set_facts(list=name, changed="-1")
        self.commit()

    def all(self) -> dict[tuple[str, str], IndexedSession]:
        """Return every session, by (store, id)."""
        rows = self.connection.execute(f"SELECT {_COLUMNS} FROM session")
        return {(row[1], row[2]): IndexedSession._make(row) for row in rows}

    def of(self, pairs: Iterable[tuple[str, str]]) -> dict[tuple[str, str], IndexedSession]:
        """Return those of these sessions that are known."""
        found = {}
        for root, name in pairs:
            row = self.connection.execute(
                f"SELECT {_COLUMNS} FROM session WHERE root = ? AND id = ?", (root, name)
            ).fetchone()
            if row:
                found[root, name] = IndexedSession._make(row)
        return found

    def by_key(self, keys: Iterable[int]) -> dict[int, tuple[str, str, int]]:
        """Return (store, id, number of messages) of each key that is in use."""
        found: dict[int, tuple[str, str, int]] = {}
        wanted = list(keys)
        for start in range(0, len(wanted), 500):
            batch = wanted[start : start + 500]
            query = f"SELECT key, root, id, indexed FROM session WHERE key IN ({','.join('?' * len(batch))})"
            for key, root, name, indexed in self.connection.execute(query, batch):
                found[key] = (root, name, indexed)
        return found

    def names(self, keys: Iterable[int]) -> dict[int, str]:
        """Return the name (title and summary) of each of these few keys."""
        wanted = list(keys)
        query = f"SELECT key, name FROM session WHERE key IN ({','.join('?' * len(wanted))})"
        return dict(self.connection.execute(query, wanted))

    def keys(self) -> dict[tuple[str, str], int]:
        """Return the keys of all sessions."""
        return {(root, name): key for root, name, key in self.connection.execute("SELECT root, id, key FROM session")}

    def roots(self) -> set[str]:
        """Return the stores that have sessions here."""
        found: set[str] = set()
        root = ""
        while True:  # skip from store to store in the index instead of scanning all sessions
            root = self.connection.execute("SELECT min(root) FROM session WHERE root > ?", (root,)).fetchone()[0]
            if root is None:
                return found
            found.add(root)

    def new_key(self, root: str, session_id: str) -> int:
        """Create and return a key for a session that has none."""
        made = self.connection.execute(
            "INSERT INTO session (root, id, indexed, digest, signs, changed, name) VALUES (?, ?, 0, 0, '', -1, '')",
            (root, session_id),
        )
        return int(made.lastrowid or 0)

    def retire(self, key: int) -> None:
        """Retire a key: it no longer names a session."""
        self.connection.execute("INSERT OR IGNORE INTO retired VALUES (?)", (key,))
        self.connection.execute("DELETE FROM session WHERE key = ?", (key,))
        self.connection.execute("DELETE FROM embedded WHERE key = ?", (key,))

    def retired(self) -> list[int]:
        """Return the keys whose messages must be removed from the index."""
        return [row[0] for row in self.connection.execute("SELECT key FROM retired")]

    def announce(self, rows: Sequence[tuple[int, int, str, int, str, int]], stamp: str) -> None:
        """Record what will be true after the next commit; `stamp` is the index's stamp before it."""
        self.connection.executemany("INSERT OR REPLACE INTO pending VALUES (?, ?, ?, ?, ?, ?)", rows)
        self.set_facts(stamp=stamp)

    def settle(self, stamp: str) -> None:
        """Apply the announcement if `stamp` differs from the announced one, which means that the commit was made."""
        self.begin()
        if stamp != self.fact("stamp"):
            self.connection.execute(
                "UPDATE session SET (indexed, digest, signs, changed, name) = (SELECT indexed, digest, signs, changed, "
                "name FROM pending WHERE pending.key = session.key) WHERE key IN (SELECT key FROM pending)"
            )
            self.connection.execute("DELETE FROM retired")
        self.connection.execute("DELETE FROM pending")
        self.commit()

    def pending(self) -> bool:
        """Whether an update was killed before `settle`."""
        return self.connection.execute("SELECT 1 FROM pending LIMIT 1").fetchone() is not None

    def counts(self) -> tuple[int, int]:
        """Return the number of sessions and messages in the index."""
        row = self.connection.execute("SELECT count(*), coalesce(sum(indexed), 0) FROM session").fetchone()
        return int(row[0]), int(row[1])

    # ── vectors ──────────────────────────────────────────────────────────────────────────────────────

    def segments(self, model: str) -> list[SegmentFile]:
        """Return the vector files of a model."""
        rows = self.connection.execute("SELECT file, count FROM segment WHERE model = ? ORDER BY file", (model,))
        return [SegmentFile._make(row) for row in rows]

    def models(self) -> list[str]:
        """Return the models that have vectors."""
        return [row[0] for row in self.connection.execute("SELECT DISTINCT model FROM segment")]

    def to_embed(self, model: str) -> list[tuple[int, str, str, int, int]]:
        """Return (key, store, id, first, end) of the messages that a model has not embedded."""
        rows = self.connection.execute(
            "SELECT s.key, s.root, s.id, coalesce(e.next, 0), s.indexed FROM session s LEFT JOIN embedded e "
            "ON e.model = ? AND e.key = s.key WHERE s.indexed > coalesce(e.next, 0) ORDER BY s.key",
            (model,),
        )
        return rows.fetchall()

    def embedded(self, model: str, reached: Sequence[tuple[int, int]]) -> None:
        """Record how far a model is with these sessions, by key."""
        rows = [(model, key, end) for key, end in reached]
        self.connection.executemany("INSERT OR REPLACE INTO embedded VALUES (?, ?, ?)", rows)

    def add_segment(self, model: str, file: str, count: int) -> None:
        """Record a vector file."""
        self.connection.execute("INSERT INTO segment VALUES (?, ?, ?)", (model, file, count))

    def drop_segments(self, model: str, files: Sequence[str]) -> None:
        """Remove the records of vector files that were merged into another."""
        rows = [(model, name) for name in files]
        self.connection.executemany("DELETE FROM segment WHERE model = ? AND file = ?", rows)

    def in_use(self) -> list[int]:
        """Return every key."""
        return [row[0] for row in self.connection.execute("SELECT key FROM session")]

    def forget_model(self, model: str) -> None:
        """Remove the records of all vectors of a model."""
        self.connection.execute("DELETE FROM segment WHERE model = ?", (model,))
        self.connection.execute("DELETE FROM embedded WHERE model = ?", (model,))

    def begin(self) -> None:
        """Begin a transaction, unless one is open."""
        if not self.connection.in_transaction:
            self.connection.execute("BEGIN IMMEDIATE")

    def commit(self) -> None:
        """Commit the transaction."""
        if self.connection.in_transaction:
            self.connection.execute("COMMIT")

    def rollback(self) -> None:
        """Roll the transaction back."""
        if self.connection.in_transaction:
            self.connection.execute("ROLLBACK")

    def close(self) -> None:
        self.connection.close()
