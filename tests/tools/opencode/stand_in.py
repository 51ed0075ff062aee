"""A fast stand-in for the `opencode` program that imports and deletes, for tests that are not about OpenCode.

It behaves as the real one does in test_real.py: unknown fields are dropped, existing messages stay, and a missing field
aborts the import half-way.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import time
from pathlib import Path
from typing import Any

_USER = ("id", "sessionID", "role", "time", "agent", "model")
_ASSISTANT = ("parentID", "mode", "agent", "path", "cost", "tokens", "modelID", "providerID", "finish")
_TEXT = ("type", "text", "metadata")
_TOOL = ("type", "callID", "tool", "state")


def install(folder: Path) -> Path:
    """Install it in a folder under the name of the real one."""
    folder.mkdir(parents=True, exist_ok=True)
    script = folder / "opencode"
    here = Path(__file__).resolve()
    script.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{here}" "$@"\n', encoding="utf-8")
    script.chmod(0o755)
    return script


def main(arguments: list[str]) -> int:
    """Run one command of the program."""
    command = [argument for argument in arguments if argument != "--pure"]
    if command == ["--version"]:
        print("1.18.18")
        return 0
    path = Path(os.environ.get("XDG_DATA_HOME") or Path(os.environ["HOME"]) / ".local/share") / "opencode/opencode.db"
    from tests.tools.opencode.corpus import Corpus

    if not path.exists():
        Corpus(path).close()
    database = sqlite3.connect(path, isolation_level=None)
    if command[0] == "import":
        document = json.loads(Path(command[1]).read_text(encoding="utf-8"))
        _import(database, document)
        print(f"Imported session: {document['info']['id']}")
    elif command[:2] == ["session", "delete"]:
        database.execute("DELETE FROM part WHERE session_id = ?", (command[2],))
        database.execute("DELETE FROM message WHERE session_id = ?", (command[2],))
        database.execute("DELETE FROM session WHERE id = ?", (command[2],))
    database.close()
    return 0


def _import(database: sqlite3.Connection, document: dict[str, Any]) -> None:
    info = document["info"]
    now = int(time.time() * 1000)
    parent = info.get("parentID")
    row = (info["id"], "global", parent, info["slug"], os.getcwd(), info["title"], info["version"])
    database.execute(
        "INSERT INTO session (id, project_id, parent_id, slug, directory, title, version, time_created, time_updated)"
        " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING",
        (*row, info["time"]["created"], now),
    )
    for message in document["messages"]:
        record = message["info"]
        names: tuple[str, ...] = _USER if record["role"] == "user" else (*_USER[:4], *_ASSISTANT)
        data = {name: record[name] for name in names if name not in ("id", "sessionID")}
        values: tuple[Any, ...] = (record["id"], info["id"], record["time"]["created"], now, _dump(data))
        database.execute("INSERT INTO message VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING", values)
        for part in message["parts"]:
            names = _TOOL if part["type"] == "tool" else _TEXT
            data = {name: part[name] for name in names if name in part}
            values = (part["id"], part["messageID"], info["id"], now, now, _dump(data))
            database.execute("INSERT INTO part VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING", values)


def _dump(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[3]))
    sys.exit(main(sys.argv[1:]))
