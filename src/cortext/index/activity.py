"""What was said on which day and by which model, and which files were used, in all sessions.

The tables are made and filled when they are first asked for: most users never need them.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from cortext.index.derived import Derived, Progress
from cortext.index.sessions import Row

_TABLES = (
    """CREATE TABLE IF NOT EXISTS active (
    number INTEGER PRIMARY KEY, root TEXT, id TEXT, fingerprint TEXT, created_at TEXT, UNIQUE (root, id))""",
    """CREATE TABLE IF NOT EXISTS said (
    number INTEGER, day TEXT, model TEXT, messages INTEGER, tokens INTEGER,
    PRIMARY KEY (number, day, model)) WITHOUT ROWID""",
    """CREATE TABLE IF NOT EXISTS used_file (
    number INTEGER, path TEXT, changed INTEGER, read INTEGER, last TEXT, PRIMARY KEY (number, path)) WITHOUT ROWID""",
)


class Said(NamedTuple):
    """Messages of a day; `model` is the one that wrote them, or empty. Without a time, the day is empty.

    `tokens` is the size of these messages, as in the list.
    """

    day: str
    model: str
    messages: int
    tokens: int


class UsedFile(NamedTuple):
    """A file as the tools named it: how often it was changed and read, and the day on which it was used last."""

    path: str
    changed: int
    read: int
    last: str


class Activity(NamedTuple):
    """The activity in one session."""

    said: Sequence[Said]
    files: Sequence[UsedFile]


class ActivityIndex:
    """The activity in the sessions of a catalogue."""

    def __init__(self, database: sqlite3.Connection) -> None:
        self._derived: Derived[Activity] = Derived(database, "active", ("said", "used_file"), _TABLES)

    def update(
        self,
        rows: Iterable[Row],
        read: Callable[[Row], Activity | None],
        progress: Progress | None = None,
        *,
        is_missing: Callable[[str], bool] = lambda root: False,
    ) -> None:
        """Read the sessions that changed, and forget those that are not among the rows: see `Derived.update`."""
        self._derived.update(rows, read, self._put, progress, is_missing)

    def _put(self, found: Sequence[tuple[int, Activity]]) -> None:
        for number, activity in found:
            for table, entries in (("said", activity.said), ("used_file", activity.files)):
                rows = [(number, *entry) for entry in entries]
                if rows:
                    values = ",".join("?" * len(rows[0]))
                    self._derived.database.executemany(f"INSERT INTO {table} VALUES ({values})", rows)

    def said(self, rows: Iterable[Row]) -> Iterator[tuple[Row, Said]]:
        """Yield what was said in these sessions, by session, day and model."""
        numbers = self._derived.numbers(rows)
        for number, *said in self._derived.database.execute("SELECT * FROM said"):
            if number in numbers:
                yield numbers[number], Said(*said)

    def files(self, rows: Iterable[Row]) -> Iterator[tuple[Row, UsedFile]]:
        """Yield the files that these sessions used."""
        numbers = self._derived.numbers(rows)
        for number, *file in self._derived.database.execute("SELECT * FROM used_file"):
            if number in numbers:
                yield numbers[number], UsedFile(*file)
