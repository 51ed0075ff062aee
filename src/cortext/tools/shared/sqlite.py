"""Reading the SQLite database of another program: read-only, in one snapshot, without leaving files behind."""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager

from cortext.io import durable
from cortext.tools.shared.folders import beginning

# The key, or its beginning, of the one transcript that a database is listed as while it cannot be read.
DAMAGED_DATABASE = "damaged-database"
_HEADER = b"SQLite format 3\0"
_WAL_VERSION = 18  # the offset of the byte that is 2 if the database has a write-ahead log
_BUSY_SECONDS = 5.0
_MAPPED_BYTES = 1 << 30
_INTERNAL = re.compile(r"sqlite_.*|.*_fts\d?(_\w+)?|_?\w*migrations?\w*", re.IGNORECASE)
# Columns of other types hold no text; SQLite accepts any name of a type, and none.
_WORDLESS = re.compile(r"INT|REAL|FLOA|DOUB|NUM|DEC|BOOL|DATE|TIME", re.IGNORECASE)


def is_database(path: str) -> bool:
    """Whether a file is an SQLite database, by its first bytes."""
    return beginning(path, len(_HEADER)) == _HEADER


def wal_is_live(path: str) -> bool:
    """Whether a process has, or had, this database open for writing."""
    return os.path.exists(path + "-wal")


@contextmanager
def connection(path: str) -> Iterator[sqlite3.Connection]:
    """Open the database read-only, in one snapshot: later writes are visible to the next reading."""
    try:
        os.close(durable.plain_file(path))  # refuses a named pipe, which SQLite would block on
    except OSError as error:
        raise sqlite3.OperationalError(error.strerror or str(error)) from error
    name = os.path.abspath(path).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    # A database in the mode of a write-ahead log, but without one, is open in no process, and a plain read-only
    # connection would leave two files behind. Without that mode, SQLite's own lock is needed: a write may come anytime.
    is_idle = beginning(path, _WAL_VERSION + 1)[_WAL_VERSION:] == b"\2" and not wal_is_live(path)
    database = sqlite3.connect(
        f"file:{name}?mode=ro{'&immutable=1' if is_idle else ''}",
        uri=True,
        timeout=_BUSY_SECONDS,
        isolation_level=None,
        check_same_thread=False,
    )
    try:
        database.execute(f"PRAGMA mmap_size = {_MAPPED_BYTES}")
        database.execute("BEGIN")
        yield database
    finally:
        database.close()


def tables_of(database: sqlite3.Connection) -> list[str]:
    """Return the names of the tables of a database, without those of SQLite, of a full-text search or a migration."""
    rows = database.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")
    return [row[0] for row in rows if isinstance(row[0], str) and not _INTERNAL.fullmatch(row[0])]


def columns(database: sqlite3.Connection, table: str) -> set[str]:
    """Return the names of a table's columns; none if there is no such table."""
    return {row[0] for row in database.execute("SELECT name FROM pragma_table_info(?)", (table,))}


def has_text(database: sqlite3.Connection, table: str) -> bool:
    """Whether a column of a table may hold text."""
    types = database.execute("SELECT type FROM pragma_table_info(?)", (table,))
    return any(not _WORDLESS.search(declared or "") for (declared,) in types)


def row_count(database: sqlite3.Connection, table: str) -> int:
    """Return how many rows a table has."""
    quoted = table.replace('"', '""')
    with closing(database.cursor()) as cursor:
        return int(cursor.execute(f'SELECT count(*) FROM "{quoted}"').fetchone()[0])


def text_of(value: object) -> str:
    """Return the value of a text column as text: SQLite accepts any value in any column."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else "" if value is None else str(value)


def number_of(value: object) -> int:
    """Return the value of an integer column; 0 if it is anything else."""
    return value if isinstance(value, int) else 0
