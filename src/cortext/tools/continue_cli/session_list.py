"""Continue's list of its sessions (`sessions.json`), which `cn ls` and its screen show.

Continue adds a session when it first saves it. One that we put into the folder is not listed before, so we add it as
Continue does. The file belongs to Continue: what cannot be read is not touched.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any

from cortext.errors import ConfigError
from cortext.io import durable

LIST = "sessions.json"
_LARGEST = 1 << 28

Json = dict[str, Any]


def add(folder: str, document: Json) -> None:
    """Add a session to the list, unless it is there; raise ConfigError if the list cannot be read."""
    entries = load(folder)
    if any(isinstance(entry, dict) and entry.get("sessionId") == document["sessionId"] for entry in entries):
        return
    answers = sum(item["message"]["role"] == "assistant" for item in document["history"])
    entry = {
        "sessionId": document["sessionId"],
        "title": document["title"],
        "dateCreated": str(int(time.time() * 1000)),
        "workspaceDirectory": document["workspaceDirectory"],
        "messageCount": answers,
    }
    _save(folder, [*entries, entry])


def remove(folder: str, key: str) -> None:
    """Remove a session from the list, if it is there."""
    try:
        entries = load(folder)
    except ConfigError:
        return  # our entry cannot be in it
    rest = [entry for entry in entries if not (isinstance(entry, dict) and entry.get("sessionId") == key)]
    if len(rest) != len(entries):
        _save(folder, rest)


def load(folder: str) -> list[Any]:
    """Return the entries of the list; none if there is no list."""
    path = os.path.join(folder, LIST)
    try:
        text = durable.read_file(path, _LARGEST).decode("utf-8")
        entries = json.loads(text) if text.strip() else []
    except FileNotFoundError:
        return []
    except (ValueError, RecursionError) as error:
        raise _unreadable(path, str(error)) from error
    if not isinstance(entries, list):
        raise _unreadable(path, "it is not a list")
    return entries


def _save(folder: str, entries: list[Any]) -> None:
    text = json.dumps(entries, indent=2, ensure_ascii=False)  # as Continue writes it
    durable.replace_file(os.path.join(folder, LIST), [text.encode("utf-8", "surrogatepass")])


def _unreadable(path: str, reason: str) -> ConfigError:
    return ConfigError(
        f"{path} cannot be used: {reason}",
        kept="nothing was written; Continue cannot save its sessions either",
        hint="fix the file, or move it away: Continue makes a new one",
    )
