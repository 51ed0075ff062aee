"""A synthetic OpenCode database: the tables that we read, with every kind of record."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Json = dict[str, Any]

START = 1_794_000_000_000  # milliseconds; every record comes a second after the one before

_TABLES = """
CREATE TABLE session (
    id text PRIMARY KEY, project_id text NOT NULL, parent_id text, slug text NOT NULL, directory text NOT NULL,
    path text, title text NOT NULL, version text NOT NULL, metadata text, revert text, permission text, agent text,
    model text, time_created integer NOT NULL, time_updated integer NOT NULL, time_archived integer
);
CREATE TABLE message (
    id text PRIMARY KEY, session_id text NOT NULL, time_created integer NOT NULL, time_updated integer NOT NULL,
    data text NOT NULL
);
CREATE TABLE part (
    id text PRIMARY KEY, message_id text NOT NULL, session_id text NOT NULL, time_created integer NOT NULL,
    time_updated integer NOT NULL, data text NOT NULL
);
CREATE INDEX message_session_time_created_id_idx ON message (session_id, time_created, id);
CREATE INDEX part_message_id_id_idx ON part (message_id, id);
CREATE INDEX part_session_idx ON part (session_id);
CREATE INDEX session_parent_idx ON session (parent_id);
"""


def dump(value: Any) -> str:
    """Return JSON as OpenCode writes it: no spaces, no unnecessary escapes."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


class Corpus:
    """A database that a test fills as OpenCode does: one transaction per record, with a write-ahead log."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self.database = sqlite3.connect(path, isolation_level=None)
        self.database.execute("PRAGMA journal_mode = WAL")
        self.database.executescript(_TABLES)
        self.now = START
        self._number = 0
        self._parts = 0

    def close(self) -> None:
        self.database.close()

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Write many records in one transaction, for speed."""
        self.database.execute("BEGIN")
        yield
        self.database.execute("COMMIT")

    def session(self, key: str = "ses_one", *, parent: str | None = None, title: str = "A talk", **more: Any) -> str:
        row = {"project_id": "global", "slug": "a-talk", "directory": "/work/place", "version": "1.18.18", **more}
        row |= {"id": key, "parent_id": parent, "title": title, "time_created": self.now, "time_updated": self.now}
        self._insert("session", row)
        return key

    def message(
        self, info: Json | str, *parts: Json | str, session: str = "ses_one", created: int | None = None
    ) -> str:
        """Insert a message with its parts; a string is stored unchanged, to simulate damage."""
        self._number += 1
        self.now += 1000
        identity = f"msg_{self._number:06d}"
        created = self.now if created is None else created
        row = {"id": identity, "session_id": session, "time_created": created, "time_updated": self.now}
        self._insert("message", row | {"data": info if isinstance(info, str) else dump(info)})
        for part in parts:
            self.part(identity, part, session=session)
        self.database.execute("UPDATE session SET time_updated = ? WHERE id = ?", (self.now, session))
        return identity

    def part(self, message: str, part: Json | str, *, session: str = "ses_one") -> str:
        self._parts += 1
        identity = f"prt_{self._parts:06d}"
        row: Json = {"id": identity, "message_id": message, "session_id": session}
        row |= {"time_created": self.now, "time_updated": self.now}
        self._insert("part", row | {"data": part if isinstance(part, str) else dump(part)})
        return identity

    def user(self, *parts: Json | str, **more: Any) -> str:
        """Insert a prompt; a string is its text."""
        info = {"role": "user", "time": {"created": self.now + 1000}, "agent": "build", "model": MODEL}
        records = [text(part) if isinstance(part, str) else part for part in parts]
        return self.message(info | {"summary": {"diffs": []}}, *records, **more)

    def assistant(self, *parts: Json | str, session: str = "ses_one", done: bool = True, **more: Any) -> str:
        """Insert a reply; a string is a text in it."""
        created = self.now + 1000
        info = {
            "parentID": "msg_000001",
            "role": "assistant",
            "mode": "build",
            "agent": "build",
            "path": {"cwd": "/work/place", "root": "/"},
            "cost": 0,
            "tokens": {"total": 15, "input": 10, "output": 5, "reasoning": 0, "cache": {"write": 0, "read": 0}},
            "modelID": "model-one",
            "providerID": "some",
            "time": {"created": created, "completed": created + 500} if done else {"created": created},
            "finish": "stop",
            **more,
        }
        records = [text(part) if isinstance(part, str) else part for part in parts]
        return self.message(info, step_start(), *records, step_finish(), session=session)

    def change(self, table: str, identity: str, **columns: Any) -> None:
        names = ", ".join(f"{name} = ?" for name in columns)
        self.database.execute(f"UPDATE {table} SET {names} WHERE id = ?", (*columns.values(), identity))

    def remove(self, message: str) -> None:
        self.database.execute("DELETE FROM part WHERE message_id = ?", (message,))
        self.database.execute("DELETE FROM message WHERE id = ?", (message,))

    def rows(self) -> list[bytes]:
        """Return everything that is stored as JSON."""
        query = "SELECT CAST(data AS BLOB) FROM message UNION ALL SELECT CAST(data AS BLOB) FROM part"
        return [row[0] for row in self.database.execute(query)]

    def _insert(self, table: str, row: Json) -> None:
        names, placeholders = ", ".join(row), ", ".join("?" * len(row))
        self.database.execute(f"INSERT INTO {table} ({names}) VALUES ({placeholders})", tuple(row.values()))


MODEL = {"providerID": "some", "modelID": "model-one"}


def text(content: str, **more: Any) -> Json:
    return {"type": "text", "text": content, **more}


def thinking(thought: str) -> Json:
    return {"type": "reasoning", "text": thought, "time": {"start": START, "end": START + 1}}


def call(name: str, arguments: Json, output: str = "", *, identity: str = "call_1", **state: Any) -> Json:
    """Return a call with its result; `status="error", error=…` makes it a failed one."""
    full_state = {
        "status": "completed",
        "input": arguments,
        "output": output,
        "title": name,
        "metadata": {"output": output},
    }
    full_state |= {"time": {"start": START, "end": START + 2}} | state
    return {"type": "tool", "tool": name, "callID": identity, "state": full_state}


def image(url: str, mime: str = "image/png", name: str = "shot.png") -> Json:
    return {"type": "file", "mime": mime, "filename": name, "url": url}


def step_start() -> Json:
    return {"type": "step-start"}


def step_finish() -> Json:
    tokens = {"total": 15, "input": 10, "output": 5, "reasoning": 0, "cache": {"write": 0, "read": 0}}
    return {"reason": "stop", "type": "step-finish", "tokens": tokens, "cost": 0}
