"""The catalogue's database: SQLite in WAL mode, one per user, in the cache folder; it can be deleted at any time."""

from __future__ import annotations

import os
import sqlite3
import stat

from cortext.errors import WriteFailed
from cortext.io import files as fsio

SCHEMA = 9
_REFUSED = (
    sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM,
)  # fmt: skip

_TABLES = """
-- Which transcript of which tool is kept in which session, and how far it was read.
CREATE TABLE IF NOT EXISTS transcript (
    tool TEXT, key TEXT, root TEXT, session_id TEXT, size INTEGER, changed INTEGER, cursor TEXT,
    PRIMARY KEY (tool, key)
) WITHOUT ROWID;
-- Every session of every known store, as lists show it; `signs` are sizes and times of its files; `changed` counts up
-- with every lot of sessions that were read again (see `counter`), so that search finds what is new to it; `asked` is 1
-- for a chat that only ran our own commands (`model/asking`).
CREATE TABLE IF NOT EXISTS session (
    root TEXT, id TEXT, kind TEXT, type TEXT, title TEXT, status TEXT, tool TEXT, agent TEXT, created_at TEXT,
    last_active TEXT, message_count INTEGER, token_count INTEGER, summary TEXT, path TEXT, damage INTEGER,
    straight INTEGER, signs TEXT, changed INTEGER, asked INTEGER DEFAULT 0,
    PRIMARY KEY (root, id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS session_by_tool ON session (tool, type, status, agent, last_active);
CREATE INDEX IF NOT EXISTS session_by_type ON session (type, status, agent, last_active);
CREATE INDEX IF NOT EXISTS session_by_time ON session (last_active DESC);
CREATE INDEX IF NOT EXISTS session_of_store_by_time ON session (root, last_active DESC);
CREATE INDEX IF NOT EXISTS session_by_change ON session (changed);
CREATE INDEX IF NOT EXISTS session_in_use ON session (root) WHERE status = 'active';
-- Sessions that went away since.
CREATE TABLE IF NOT EXISTS gone (root TEXT, id TEXT, changed INTEGER, PRIMARY KEY (root, id)) WITHOUT ROWID;
-- One row: how many lots there were, and which database this is (a deleted one comes back as another).
CREATE TABLE IF NOT EXISTS counter (changed INTEGER, name TEXT);
INSERT INTO counter SELECT 0, lower(hex(randomblob(8))) WHERE NOT EXISTS (SELECT 1 FROM counter);
-- How far each store was looked through.
CREATE TABLE IF NOT EXISTS store (
    root TEXT PRIMARY KEY, kind TEXT, noted INTEGER, signs TEXT, scanned REAL
) WITHOUT ROWID;
"""


class Database(sqlite3.Connection):
    """A connection that is closed, at the latest, when the collector finds that nobody holds it.

    Most are held by a list or a search that was made for one question and ends with it. The collector runs in any
    thread, so the connection is not tied to one.
    """

    def __del__(self) -> None:
        try:
            self.close()
        except sqlite3.ProgrammingError:
            pass  # it could not even be opened


def open_database(path: str) -> Database:
    """Connect to a database file; every statement is a transaction of its own unless one is begun.

    The file is the user's alone, whatever the umask; SQLite gives the files beside it the same mode.
    """
    if path != ":memory:":
        make_private(path)
    return sqlite3.connect(path, timeout=10, isolation_level=None, check_same_thread=False, factory=Database)


def connect(folder: str) -> Database:
    """The database in this folder, made or made anew where it is missing, broken or of another version.

    Where the folder cannot be written to (a full disk, a home that is read-only) it is one in memory, for this once.
    """
    path = os.path.join(folder, "catalogue.db")
    try:
        fsio.ensure_folder(folder)
        try:
            return _open(path)
        except sqlite3.DatabaseError as error:
            if unwritable(error):
                raise  # nothing is wrong with the database: it must not be thrown away
            _remove(path)
            return _open(path)
    except (sqlite3.DatabaseError, WriteFailed) as error:
        if isinstance(error, WriteFailed) or unwritable(error):
            return in_memory()
        raise


def make_private(path: str) -> None:
    """Make the file where there is none, and shut it to others where an older version left it open.

    What is no file (a folder in the place of one) is damage: sqlite3.DatabaseError, and the database is made anew.

    Never by opening one that is there: closing it again would let go of the locks that SQLite has on it.
    """
    for place in (path, f"{path}-wal", f"{path}-shm"):
        try:
            mode = os.lstat(place).st_mode
            if not stat.S_ISREG(mode) and not stat.S_ISLNK(mode):  # SQLite would only say that it cannot open it
                raise sqlite3.DatabaseError(f"{place} is not a file")
            if mode & 0o077:
                os.chmod(place, fsio.FILE_MODE)
        except FileNotFoundError:
            if place == path:
                _make_empty(path)
        except OSError:
            return  # not ours, or on a disk that is read-only: SQLite says what it cannot do


def _make_empty(path: str) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, fsio.FILE_MODE)
    except OSError:
        return  # another process was faster, or it cannot be made: SQLite says so
    try:
        os.fchmod(descriptor, fsio.FILE_MODE)  # the umask may have cut it
    finally:
        os.close(descriptor)


def remade(folder: str) -> Database:
    """The database anew, in the place of one that turned out to be damaged: all that is in it comes back from files."""
    path = os.path.join(folder, "catalogue.db")
    try:
        _remove(path)
    except WriteFailed:
        return in_memory()
    return connect(folder)


def _remove(path: str) -> None:
    for suffix in ("", "-wal", "-shm"):
        if os.path.isdir(path + suffix):
            fsio.remove_tree(path + suffix)
        else:
            fsio.remove(path + suffix)


def unwritable(error: sqlite3.DatabaseError) -> bool:
    """Whether the disk refuses (full, read-only, failing), or somebody does not let go of the database."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _REFUSED


def locked(error: sqlite3.DatabaseError) -> bool:
    """Whether somebody does not let go of the database."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def in_memory() -> Database:
    """The same database, empty, for where none can be kept."""
    connection = open_database(":memory:")
    connection.executescript(_TABLES)
    return connection


def _open(path: str) -> Database:
    connection = open_database(path)
    try:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version == 8:
            version = _without_asked(connection)
        if version not in (0, SCHEMA):
            raise sqlite3.DatabaseError("of another version")
        if version == 0:
            connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        if version == 0:
            # All at once: one by one they would be flushed a dozen times.
            connection.executescript(f"BEGIN IMMEDIATE;{_TABLES}PRAGMA user_version = {SCHEMA};COMMIT;")
    except BaseException:
        connection.close()
        raise
    return connection


def _without_asked(connection: Database) -> int:
    """Bring the database of the version before up to date: what it knows of transcripts is worth keeping."""
    connection.execute("BEGIN IMMEDIATE")
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if version == 8:  # nobody was quicker
        connection.execute("ALTER TABLE session ADD COLUMN asked INTEGER DEFAULT 0")
        connection.execute("UPDATE session SET signs = '' WHERE kind = 'home'")  # these are read again
        connection.execute("UPDATE store SET signs = '{}'")
        connection.execute(f"PRAGMA user_version = {SCHEMA}")
        version = SCHEMA
    connection.execute("COMMIT")
    return version
