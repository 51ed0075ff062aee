"""Where OpenCode keeps its sessions: an SQLite database, which we only ever read.

A session of a side agent names its parent; such sessions are read with the one that they belong to.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

from cortext.io import files as fsio
from cortext.tools.base import Transcript

SQLITE_HEADER = b"SQLite format 3\0"
_BUSY_SECONDS = 5.0
_KEY = re.compile(r"ses_[0-9A-Za-z_-]{1,80}")
_MAPPED_BYTES = 1 << 30

# A session whose parent is gone stands for itself. UNION, not UNION ALL: a circle of parents must end.
_FAMILY = """
WITH RECURSIVE family(root, id) AS (
    SELECT id, id FROM session WHERE {roots}
    UNION
    SELECT family.root, session.id FROM session JOIN family ON session.parent_id = family.id
)
"""
_ROOTS = "parent_id IS NULL OR parent_id NOT IN (SELECT id FROM session)"
_SIGNS = (
    _FAMILY
    + """
SELECT family.root, root.directory,
    sum((SELECT count(*) FROM message WHERE session_id = family.id)),
    max(max(session.time_updated, coalesce((
        SELECT time_updated FROM message WHERE session_id = family.id ORDER BY time_created DESC, id DESC LIMIT 1
    ), 0)))
FROM family JOIN session ON session.id = family.id JOIN session root ON root.id = family.root
GROUP BY family.root
"""
)


class Folders:
    """The folders that OpenCode uses, as its environment says."""

    def __init__(self, home: str, environ: Mapping[str, str]) -> None:
        self.data = os.path.join(environ.get("XDG_DATA_HOME") or os.path.join(home, ".local/share"), "opencode")
        self.config = os.path.join(environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config"), "opencode")
        self.state = os.path.join(environ.get("XDG_STATE_HOME") or os.path.join(home, ".local/state"), "opencode")
        # An absolute OPENCODE_DB stands for itself, any other name lies in the data folder.
        self.database = os.path.join(self.data, environ.get("OPENCODE_DB") or "opencode.db")


class SessionRow(NamedTuple):
    """A session of a family: its id, and whether it is a side agent's."""

    id: str
    aside: bool


def is_key(text: str) -> bool:
    """Whether OpenCode takes this as the id of a session."""
    return _KEY.fullmatch(text) is not None


def is_database(path: str) -> bool:
    """Whether a file is an SQLite database, by its first bytes."""
    try:
        with open(path, "rb", opener=fsio.plain_file) as file:
            return file.read(len(SQLITE_HEADER)) == SQLITE_HEADER
    except OSError:
        return False


def wal_is_live(path: str) -> bool:
    """Whether some program has, or had, this database open for writing."""
    return os.path.exists(path + "-wal")


@contextmanager
def connection(path: str) -> Iterator[sqlite3.Connection]:
    """The database, read-only and as of one moment: what is written meanwhile comes with the next reading."""
    try:
        os.close(fsio.plain_file(path))  # SQLite would wait for a pipe
    except OSError as error:
        raise sqlite3.OperationalError(error.strerror or str(error)) from error
    name = os.path.abspath(path).replace("%", "%25").replace("?", "%3f").replace("#", "%23")
    # Without a log no program has it open; a plain read-only opening would then leave two files beside it.
    mode = "mode=ro" if wal_is_live(path) else "mode=ro&immutable=1"
    made = sqlite3.connect(
        f"file:{name}?{mode}", uri=True, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False
    )
    try:
        made.execute(f"PRAGMA mmap_size = {_MAPPED_BYTES}")
        made.execute("BEGIN")
        yield made
    finally:
        made.close()


def transcripts(path: str, *, tool: str, project: str | None = None, key: str = "") -> Iterator[Transcript]:
    """The sessions of a database with their signs of change, by its indices alone; side agents' are not listed.

    `size` counts messages, `changed` is the newest time of a change in milliseconds.
    """
    roots = "id = ?" if key else _ROOTS
    values = (key,) if key else ()
    folders = None if project is None else {project, os.path.realpath(project)}
    with connection(path) as database:
        for root, directory, size, changed in database.execute(_SIGNS.format(roots=roots), values):
            if folders is None or directory in folders:
                # SQLite takes any value in any column: an id as bytes is that id.
                name, project_ = text_of(root), text_of(directory)
                yield Transcript(
                    tool=tool, key=name, path=path, project=project_, size=_number(size), changed=_number(changed)
                )


def is_compacted(path: str, key: str) -> bool:
    """Whether OpenCode summed a session up and goes on from that; one that cannot be looked at may have been."""
    query = "SELECT 1 FROM part WHERE session_id = ? AND data LIKE '%\"compaction\"%' LIMIT 1"
    try:
        with connection(path) as database:
            return database.execute(query, (key,)).fetchone() is not None
    except sqlite3.Error:
        return True


def family(database: sqlite3.Connection, key: str) -> list[SessionRow]:
    """A session and those of its side agents, itself first."""
    rows = database.execute(_FAMILY.format(roots="id = ?") + "SELECT id FROM family", (key,))
    found = [SessionRow(row[0], row[0] != key) for row in rows if isinstance(row[0], str)]
    return found or [SessionRow(key, False)]


def session_info(database: sqlite3.Connection, key: str) -> dict[str, Any]:
    """A session's own row in the shape of `opencode export`; empty where it is not there."""
    cursor = database.execute("SELECT * FROM session WHERE id = ? OR id = CAST(? AS BLOB)", (key, key))
    values = cursor.fetchone()
    if values is None:
        return {}
    row = dict(zip((column[0] for column in cursor.description), values, strict=True))
    info: dict[str, Any] = {
        "id": key,
        "slug": row.get("slug"),
        "projectID": row.get("project_id"),
        "workspaceID": row.get("workspace_id"),
        "directory": row.get("directory"),
        "path": row.get("path"),
        "parentID": row.get("parent_id"),
        "title": row.get("title"),
        "agent": row.get("agent"),
        "model": _json(row.get("model")),
        "version": row.get("version"),
        "summary": _summary(row),
        "cost": row.get("cost"),
        "tokens": _tokens(row),
        "share": {"url": row["share_url"]} if row.get("share_url") else None,
        "metadata": _json(row.get("metadata")),
        "permission": _json(row.get("permission")),
        "revert": _json(row.get("revert")),
    }
    times = {name: row.get(f"time_{name}") for name in ("created", "updated", "compacting", "archived")}
    info["time"] = {name: value for name, value in times.items() if value is not None}
    return {name: value for name, value in info.items() if value is not None}


def exists(path: str, key: str) -> bool:
    """Whether the database has this session."""
    if not is_database(path):
        return False
    with connection(path) as opened:
        return bool(session_info(opened, key))


def _summary(row: dict[str, Any]) -> dict[str, Any] | None:
    counts = {name: row.get(f"summary_{name}") for name in ("additions", "deletions", "files")}
    if any(value is None for value in counts.values()):
        return None
    diffs = _json(row.get("summary_diffs"))
    return counts | ({"diffs": diffs} if diffs is not None else {})


def _tokens(row: dict[str, Any]) -> dict[str, Any] | None:
    if row.get("tokens_input") is None:
        return None
    counts = {name: row.get(f"tokens_{name}") or 0 for name in ("input", "output", "reasoning")}
    return counts | {"cache": {name: row.get(f"tokens_cache_{name}") or 0 for name in ("read", "write")}}


def text_of(value: object) -> str:
    """A column that should hold a text."""
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else "" if value is None else str(value)


def _number(value: object) -> int:
    """A column that should hold a whole number."""
    return value if isinstance(value, int) else 0


def _json(text: object) -> Any:
    """A column that holds JSON; None where it is empty or damaged."""
    if not isinstance(text, str):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
