"""The catalogue's database: SQLite in WAL mode, one per user, in the cache folder. It can be deleted at any time."""

from __future__ import annotations

import os
import sqlite3
import stat

from cortext.errors import WriteFailed
from cortext.io import durable

SCHEMA = 15
_REFUSED = (
    sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM,
)  # fmt: skip

_TABLES = """
-- Which tool transcript belongs to which session, and how far it has been read.
CREATE TABLE IF NOT EXISTS transcript (
    tool TEXT, key TEXT, root TEXT, session_id TEXT, size INTEGER, changed INTEGER, cursor TEXT,
    PRIMARY KEY (tool, key)
) WITHOUT ROWID;
-- Every session of every known store, as lists show it. `signs` is the fingerprint (sizes and times) of its files;
-- `changed` is the number of the batch in which it was last read (see `counter`), so that search finds what is new;
-- `asked` is 1 for a chat that only ran our own commands (`model.message`); `project` is the folder it was held in,
-- and `repository` what is known of that as JSON, or empty; `tags` are separated by blanks; `starred` and `archived`
-- are 0 or 1; `parent` is the id of the session that it was forked from, or empty; `message_count` is without the
-- asides, which `aside_count` counts; `branch_count` is the number of branches in which it goes on.
CREATE TABLE IF NOT EXISTS session (
    root TEXT, id TEXT, kind TEXT, type TEXT, title TEXT, status TEXT, tool TEXT, agent TEXT, created_at TEXT,
    last_active TEXT, message_count INTEGER, token_count INTEGER, summary TEXT, path TEXT, damage INTEGER,
    straight INTEGER, signs TEXT, changed INTEGER, asked INTEGER DEFAULT 0,
    project TEXT DEFAULT '', repository TEXT DEFAULT '',
    tags TEXT DEFAULT '', starred INTEGER DEFAULT 0, archived INTEGER DEFAULT 0, parent TEXT DEFAULT '',
    aside_count INTEGER DEFAULT 0, branch_count INTEGER DEFAULT 1,
    PRIMARY KEY (root, id)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS session_by_tool ON session (tool, type, status, agent, last_active);
CREATE INDEX IF NOT EXISTS session_by_type ON session (type, status, agent, last_active);
CREATE INDEX IF NOT EXISTS session_by_time ON session (last_active DESC);
CREATE INDEX IF NOT EXISTS session_of_store_by_time ON session (root, last_active DESC);
CREATE INDEX IF NOT EXISTS session_by_change ON session (changed);
CREATE INDEX IF NOT EXISTS session_in_use ON session (root) WHERE status = 'active';
CREATE INDEX IF NOT EXISTS session_by_parent ON session (root, parent) WHERE parent != '';
CREATE INDEX IF NOT EXISTS session_damaged ON session (root) WHERE damage > 0;
-- Sessions that have been removed.
CREATE TABLE IF NOT EXISTS gone (root TEXT, id TEXT, changed INTEGER, PRIMARY KEY (root, id)) WITHOUT ROWID;
-- One row: the number of batches so far, and the identity of this database (a recreated one gets another).
CREATE TABLE IF NOT EXISTS counter (changed INTEGER, name TEXT);
INSERT INTO counter SELECT 0, lower(hex(randomblob(8))) WHERE NOT EXISTS (SELECT 1 FROM counter);
-- How far each store has been scanned.
CREATE TABLE IF NOT EXISTS store (
    root TEXT PRIMARY KEY, kind TEXT, noted INTEGER, signs TEXT, scanned REAL
) WITHOUT ROWID;
"""
# Filled by the first question about costs. `key` is a hash of the provider's ids of the call, or of the message's id.
_CALLS = """
CREATE TABLE IF NOT EXISTS called (
    number INTEGER PRIMARY KEY, root TEXT, id TEXT, fingerprint TEXT, created_at TEXT, UNIQUE (root, id)
);
CREATE TABLE IF NOT EXISTS call_name (number INTEGER PRIMARY KEY, name TEXT UNIQUE);
CREATE TABLE IF NOT EXISTS call (
    number INTEGER, key INTEGER, at INTEGER, model INTEGER, tool INTEGER, input INTEGER, output INTEGER,
    cache_read INTEGER, cache_write INTEGER, cache_write_1h INTEGER, reasoning INTEGER, cost REAL,
    window_end INTEGER, week_end INTEGER,
    PRIMARY KEY (number, key)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS call_by_key ON call (key);
"""


class Database(sqlite3.Connection):
    """A connection that is closed at the latest when it is garbage-collected.

    Most connections belong to a list or a search made for a single query. The collector can run in any thread, so the
    connection is not tied to one.
    """

    def __del__(self) -> None:
        try:
            self.close()
        except sqlite3.ProgrammingError:
            pass  # it was never opened


def open_database(path: str) -> Database:
    """Connect to a database file in autocommit mode.

    The file is readable by the user alone, whatever the umask; SQLite gives the files next to it the same mode.
    """
    if path != ":memory:":
        make_private(path)
    return sqlite3.connect(path, timeout=10, isolation_level=None, check_same_thread=False, factory=Database)


def connect(folder: str) -> Database:
    """Open the database in this folder, creating it if it is missing and recreating it if damaged or incompatible.

    If the folder cannot be written to (a full disk, a read-only home), return a temporary database in memory.
    """
    path = os.path.join(folder, "catalogue.db")
    try:
        durable.ensure_folder(folder)
        try:
            return _open(path)
        except sqlite3.DatabaseError as error:
            if is_unwritable(error):
                raise  # the database itself is intact and must be kept
            _remove(path)
            return _open(path)
    except (sqlite3.DatabaseError, WriteFailed) as error:
        if isinstance(error, WriteFailed) or is_unwritable(error):
            return in_memory()
        raise


def make_private(path: str) -> None:
    """Create the file if it is missing, and remove the access that an older version gave to other users.

    Raises sqlite3.DatabaseError if the path is not a file (a folder, for example), so that it is recreated.

    An existing file is never opened here: closing it would drop SQLite's POSIX locks on it.
    """
    for name in (path, f"{path}-wal", f"{path}-shm"):
        try:
            mode = os.lstat(name).st_mode
            if not stat.S_ISREG(mode) and not stat.S_ISLNK(mode):  # SQLite would only say that it cannot open it
                raise sqlite3.DatabaseError(f"{name} is not a file")
            if mode & 0o077:
                os.chmod(name, durable.FILE_MODE)
        except FileNotFoundError:
            if name == path:
                _make_empty(path)
        except OSError:
            return  # not ours, or on a read-only disk: SQLite reports what it cannot do


def _make_empty(path: str) -> None:
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, durable.FILE_MODE)
    except OSError:
        return  # another process was faster, or it cannot be created: SQLite reports that
    try:
        os.fchmod(descriptor, durable.FILE_MODE)  # the umask may have removed bits
    finally:
        os.close(descriptor)


def recreate(folder: str) -> Database:
    """Delete a damaged database and return a new one; its content is rebuilt from the files."""
    path = os.path.join(folder, "catalogue.db")
    try:
        _remove(path)
    except WriteFailed:
        return in_memory()
    return connect(folder)


def _remove(path: str) -> None:
    for suffix in ("", "-wal", "-shm"):
        if os.path.isdir(path + suffix):
            durable.remove_tree(path + suffix)
        else:
            durable.remove(path + suffix)


def is_unwritable(error: sqlite3.DatabaseError) -> bool:
    """Whether the disk refuses writes (full, read-only, failing) or another process holds the database."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _REFUSED


def is_misuse(error: sqlite3.DatabaseError) -> bool:
    """Whether a connection was used wrongly, by two threads for example. The file itself is intact and must be kept."""
    misused = getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_MISUSE
    # A transaction inside another one has no code of its own.
    return misused or isinstance(error, sqlite3.ProgrammingError) or "transaction" in str(error)


def locked(error: sqlite3.DatabaseError) -> bool:
    """Whether another process holds the database."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def in_memory() -> Database:
    """Return an empty database in memory, for when none can be kept on disk."""
    connection = open_database(":memory:")
    connection.executescript(_TABLES + _CALLS)
    return connection


def _open(path: str) -> Database:
    connection = open_database(path)
    try:
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version in (8, 9, 10, 12, 13, 14):
            version = _migrate(connection)
        if version not in (0, SCHEMA):
            raise sqlite3.DatabaseError("unsupported schema version")
        if version == 0:
            connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        if version == 0:
            # In one transaction: separate statements would be flushed a dozen times.
            connection.executescript(f"BEGIN IMMEDIATE;{_TABLES}{_CALLS}PRAGMA user_version = {SCHEMA};COMMIT;")
    except BaseException:
        connection.close()
        raise
    return connection


def _migrate(connection: Database) -> int:
    """Migrate an older schema to the current one, to keep what it knows about transcripts; return the version in use.

    The sessions whose new columns have to be filled in lose their fingerprints, so that they are read again.
    """
    connection.execute("BEGIN IMMEDIATE")
    version: int = connection.execute("PRAGMA user_version").fetchone()[0]
    if version == 8:
        connection.execute("ALTER TABLE session ADD COLUMN asked INTEGER DEFAULT 0")
        version = 9
    if version == 9:
        connection.execute("ALTER TABLE session ADD COLUMN project TEXT DEFAULT ''")
        connection.execute("ALTER TABLE session ADD COLUMN repository TEXT DEFAULT ''")
        connection.execute("UPDATE session SET signs = '' WHERE kind IN ('home', 'workspace')")
        version = 10
    if version == 10:
        connection.execute("ALTER TABLE session ADD COLUMN tags TEXT DEFAULT ''")
        connection.execute("ALTER TABLE session ADD COLUMN starred INTEGER DEFAULT 0")
        connection.execute("ALTER TABLE session ADD COLUMN archived INTEGER DEFAULT 0")
        for statement in filter(str.strip, _CALLS.split(";")):
            connection.execute(statement)
        connection.execute("UPDATE session SET signs = '' WHERE kind = 'workspace'")  # git may have brought tags
        connection.execute("UPDATE store SET signs = '{}'")
        version = 12
    if version == 12:
        connection.execute("ALTER TABLE session ADD COLUMN parent TEXT DEFAULT ''")
        connection.execute("CREATE INDEX session_by_parent ON session (root, parent) WHERE parent != ''")
        connection.execute("UPDATE session SET signs = ''")
        connection.execute("UPDATE store SET scanned = 0")
        for table in ("active", "said", "used_file"):  # made again with the size of what was said
            connection.execute(f"DROP TABLE IF EXISTS {table}")
        version = 13
    if version == 13:
        connection.execute("CREATE INDEX session_damaged ON session (root) WHERE damage > 0")
        version = 14
    if version == 14:
        connection.execute("ALTER TABLE session ADD COLUMN aside_count INTEGER DEFAULT 0")
        connection.execute("ALTER TABLE session ADD COLUMN branch_count INTEGER DEFAULT 1")
        connection.execute("UPDATE session SET signs = ''")
        connection.execute("UPDATE store SET scanned = 0")
        connection.execute(f"PRAGMA user_version = {SCHEMA}")
        version = SCHEMA
    connection.execute("COMMIT")
    return version
