"""OpenCode's session store: an SQLite database, which we only read.

The session of a side agent names its parent; it is read together with the session it belongs to.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from typing import Any, NamedTuple

from cortext.tools.base import Transcript
from cortext.tools.shared.sqlite import columns, connection, is_database, number_of, text_of

# A session whose parent is missing counts as a root. UNION, not UNION ALL, terminates on a cycle of parents.
_FAMILY = """
WITH RECURSIVE family(root, id) AS (
    SELECT id, id FROM session WHERE {roots}
    UNION
    SELECT family.root, session.id FROM session JOIN family ON session.parent_id = family.id
)
"""
_ROOTS = "parent_id IS NULL OR parent_id NOT IN (SELECT id FROM session)"
_TRANSCRIPTS = (
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
# Statements that count the messages of no session that is listed: its row is missing, or two are each other's parent.
_STRAYS = """
WITH RECURSIVE every(id, parent_id) AS ({sessions}), family(id) AS (
    SELECT id FROM every WHERE parent_id IS NULL OR parent_id NOT IN (SELECT id FROM every)
    UNION SELECT every.id FROM every JOIN family ON every.parent_id = family.id
)
SELECT count(*) FROM {messages} WHERE NOT EXISTS (SELECT 1 FROM family WHERE family.id = session_id)
"""
_STRAY_PARTS = """
SELECT count(DISTINCT message_id) FROM part WHERE NOT EXISTS (SELECT 1 FROM message WHERE message.id = message_id)
"""

# Tables that are read, with the columns that this needs, and those that hold OpenCode's own affairs.
TABLES = {
    "session": ("id", "parent_id", "directory", "time_updated"),
    "message": ("id", "session_id", "time_created", "time_updated", "data"),
    "part": ("id", "message_id", "session_id", "data"),
    "session_v2": ("id", "parent_id", "directory", "time_updated"),
    "session_message": ("id", "session_id", "type", "seq", "time_updated", "data"),
}
BOOKKEEPING = (
    *(
        "workspace",
        "account",
        "account_state",
        "control_account",
        "credential",
        "event",
        "event_sequence",
        "permission",
    ),
    *("project", "project_directory", "session_context_epoch", "session_input", "session_share", "todo"),
)


def _every_session(database: sqlite3.Connection) -> str:
    """Return the query for all sessions of a database, those of side agents and of both versions."""
    tables = [name for name in ("session", "session_v2") if {"id", "parent_id"} <= columns(database, name)]
    return " UNION ".join(f"SELECT id, parent_id FROM {name}" for name in tables) or "SELECT NULL, NULL"


def keys_in(path: str) -> set[str]:
    """Return the ids of all sessions of a database, those of side agents too; none if it cannot be read."""
    try:
        with connection(path) as database:
            return {text_of(row[0]) for row in database.execute(_every_session(database))}
    except sqlite3.Error:
        return set()


def strays(path: str) -> list[str]:
    """Return the statements that count the messages of a database which belong to no session that is listed."""
    try:
        with connection(path) as database:
            sessions = _every_session(database)
    except sqlite3.Error:
        return []
    return [
        _STRAY_PARTS,
        *(_STRAYS.format(sessions=sessions, messages=name) for name in ("message", "session_message")),
    ]


class SessionRow(NamedTuple):
    """A session of a family: its id, and whether it belongs to a side agent."""

    id: str
    aside: bool


def transcripts(path: str, *, tool: str, project: str | None = None, key: str = "") -> Iterator[Transcript]:
    """Yield the sessions of a database, without those of side agents, using its indices alone.

    `size` is the number of messages, `changed` the time of the latest change in milliseconds.
    """
    roots = "id = ?" if key else _ROOTS
    values = (key,) if key else ()
    folders = None if project is None else {project, os.path.realpath(project)}
    with connection(path) as database:
        has_old = all(columns(database, table) for table in ("session", "message"))
        if columns(database, "session_message") and not has_old:
            return  # a database that OpenCode 2 made has no older tables
        for root, directory, size, changed in database.execute(_TRANSCRIPTS.format(roots=roots), values):
            if folders is None or directory in folders:
                # SQLite accepts any value in any column: an id may be stored as bytes.
                yield Transcript(
                    tool=tool,
                    key=text_of(root),
                    path=path,
                    project=text_of(directory),
                    size=number_of(size),
                    changed=number_of(changed),
                )


def is_compacted(path: str, key: str) -> bool:
    """Whether OpenCode compacted a session; True if the database cannot be read."""
    query = "SELECT 1 FROM part WHERE session_id = ? AND data LIKE '%\"compaction\"%' LIMIT 1"
    try:
        with connection(path) as database:
            return database.execute(query, (key,)).fetchone() is not None
    except sqlite3.Error:
        return True


def removed(path: str, key: str) -> int:
    """Return how many messages OpenCode says it removed from a session; 0 if the database has no such records."""
    query = "SELECT count(*) FROM event WHERE aggregate_id = ? AND type LIKE 'message.removed%'"
    try:
        with connection(path) as database:
            return int(database.execute(query, (key,)).fetchone()[0])
    except sqlite3.Error:
        return 0


def family(database: sqlite3.Connection, key: str) -> list[SessionRow]:
    """Return a session and those of its side agents, itself first."""
    rows = database.execute(_FAMILY.format(roots="id = ?") + "SELECT id FROM family", (key,))
    found = [SessionRow(row[0], row[0] != key) for row in rows if isinstance(row[0], str)]
    return found or [SessionRow(key, False)]


def session_info(database: sqlite3.Connection, key: str) -> dict[str, Any]:
    """Return a session's row in the format of `opencode export`; empty if there is none."""
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


def _json(text: object) -> Any:
    """Return the value of a JSON column; None if it is empty or damaged."""
    if not isinstance(text, str):
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
