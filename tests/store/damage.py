"""Sessions that tests damage: the layouts and their files, and the contents of a quarantine."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from cortext.model.message import Message, Part
from cortext.model.session import Session
from cortext.store.files.assistant import FileChats
from cortext.store.files.chat import ChatStore
from cortext.store.files.spawn import SpawnStore
from cortext.store.files.store import FileStore
from cortext.store.files.workspace import WorkspaceStore

ID = "sess_one"


class Layout(NamedTuple):
    """A layout: its store, and the paths of its files relative to the root."""

    name: str
    make: Callable[[str], FileStore]
    log: str
    metadata: str

    def log_in(self, root: Path) -> Path:
        return root / self.log

    def metadata_in(self, root: Path) -> Path:
        return root / self.metadata


_SESSION = f"conversations/2026-01-01/{ID}/.session"
LAYOUTS = [
    Layout("workspace", WorkspaceStore, f"{_SESSION}/messages.jsonl", f"{_SESSION}/session.json"),
    Layout("spawn", SpawnStore, f"{ID}.jsonl", f"{ID}.jsonl"),
    Layout("chat", ChatStore, f"{ID}/current.jsonl", f"{ID}/meta.json"),
]


def sample_messages(count: int) -> list[Message]:
    """Return messages with text in several scripts, quoted JSON, long text and tool calls."""
    texts = [
        "Let's begin — é, 漢字, 👩‍👩‍👧",
        'quoting {"role": "user", "content": "not me"}',
        "x" * 300,
        "line\nline\t\\n",
    ]
    return [
        Message(
            role=("user", "assistant")[number % 2],
            content=f"{number}: {texts[number % len(texts)]}",
            timestamp=f"2026-01-01T10:{number % 60:02d}:00Z",
            id=f"id-{number:04d}",
            parts=[Part(type="tool_call", id="c", name="Bash", input={"n": [number]})] if number % 3 == 1 else None,
            extra={"n": number},
        )
        for number in range(count)
    ]


def make_store(layout: Layout, root: Path, count: int) -> tuple[FileStore, bytes, list[bytes]]:
    """Return a store with one session, the bytes before its messages, and the lines of the messages."""
    store = layout.make(str(root))
    store.create(Session(id=ID, created_at="2026-01-01T09:00:00Z", title="whole", agent="a"))
    store.append(ID, *sample_messages(count))
    lines = layout.log_in(root).read_bytes().splitlines(keepends=True)
    return store, b"".join(lines[:-count]), lines[-count:]


def quarantined(log: Path) -> list[tuple[str, int, bytes]]:
    """Return the contents of a log's quarantine: file name, offset and bytes."""
    path = log.with_name(log.name + ".quarantine")
    if not path.exists():
        return []
    records: list[dict[str, Any]] = [json.loads(line) for line in path.read_bytes().splitlines()]
    return [(record["file"], record["offset"], base64.b64decode(record["base64"])) for record in records]


def snapshot(root: Path) -> dict[str, bytes]:
    """Return the bytes of every file except locks and hints."""
    found = (path for path in root.rglob("*") if path.is_file() and not path.name.endswith((".lock", "changes")))
    return {str(path.relative_to(root)): path.read_bytes() for path in found}


def command_line_chat(root: str | Path) -> FileChats:
    """Return the chats whose active session on the command line is in `current.json` beside the sessions."""
    return FileChats(os.path.join(root, "chats"), "cli", os.path.join(root, "current.json"))
