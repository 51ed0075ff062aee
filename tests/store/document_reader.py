"""A reader written from docs/file-formats.md alone: it must not import cortext."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

Line = dict[str, Any]
PADDING = b"\0 \t\r"


def records(path: Path) -> list[tuple[Line, bytes]]:
    """Return every complete record of a file with its bytes ("Reading a damaged file", 1 to 3 and 5)."""
    found: list[tuple[Line, bytes]] = []
    raw = path.read_bytes() if path.exists() else b""
    for line in raw.split(b"\n"):
        rest = line.strip(PADDING).removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
        while rest:
            try:
                value, end = json.JSONDecoder().raw_decode(rest)
            except (ValueError, RecursionError):
                break
            if not isinstance(value, dict) or "\ufffd" in rest[:end]:
                break
            found.append((value, rest[:end].encode("utf-8")))
            rest = rest[end:].strip(PADDING.decode())
    return found


def messages(*files: Path) -> list[Line]:
    """Return the messages of a session from its files, the archive first."""
    found: list[Line] = []
    seen: set[str] = set()
    last = -1
    for file in files:
        for record, raw in records(file):
            if record.get("type") == "metadata" or not isinstance(record.get("role"), str) or not record["role"]:
                continue
            seq = record.get("seq")
            if not isinstance(seq, int) or not 0 <= seq < 2**53:
                seq = last + 1
            message_id = record.get("id") or _derived_id(raw, seq)
            if seq <= last:
                if message_id in seen:
                    continue  # a duplicate, or a message that a compaction left in both files
                seq = last + 1
            last = seq
            seen.add(message_id)
            found.append({**record, "seq": seq, "id": message_id})
    return found


def _derived_id(raw: bytes, seq: int) -> str:
    return "x" + hashlib.blake2b(raw, digest_size=12, salt=seq.to_bytes(8, "big")).hexdigest()


def text_of(message: Line) -> str:
    """Return the plain text of a message."""
    if message.get("content"):
        return str(message["content"])
    keys = {"text": "text", "tool_result": "output"}
    texts = (part.get(keys[part["type"]]) for part in message.get("parts", []) if part["type"] in keys)
    return "\n\n".join(filter(None, texts))


def thread(found: list[Line]) -> list[Line]:
    """Return the messages of the current branch, in order."""
    candidates = [message for message in found if not message.get("aside")]
    indexes = {message["id"]: index for index, message in enumerate(candidates)}
    branch: list[Line] = []
    index = len(candidates) - 1
    while index >= 0:
        message = candidates[index]
        branch.append(message)
        parent = message.get("parent", "")
        if parent == "(beginning)":
            break
        before = indexes.get(parent, index - 1)
        index = before if before < index else index - 1
    return [message for message in reversed(branch) if not message.get("partial")]


def quarantine(log: Path) -> list[tuple[str, int, bytes]]:
    """Return what was quarantined: file name, offset and bytes; length and hash are checked."""
    found = []
    for record, _ in records(log.with_name(log.name + ".quarantine")):
        data = base64.b64decode(record["base64"])
        assert len(data) == record["length"] and hashlib.sha256(data).hexdigest() == record["sha256"]
        found.append((record["file"], record["offset"], data))
    return found


class Workspace:
    """conversations/<date>/<id>/.session/"""

    def __init__(self, root: Path, session_id: str) -> None:
        self.folder = next(root.glob(f"conversations/*/{session_id}/.session"))
        self.log = self.folder / "messages.jsonl"
        self.files = (self.folder / "archive.jsonl", self.log)

    def metadata(self) -> Line:
        found: Line = json.loads((self.folder / "session.json").read_text(encoding="utf-8"))
        return {"id": found["conversation_id"], **found}


class Spawn:
    """<id>.jsonl"""

    def __init__(self, root: Path, session_id: str) -> None:
        self.log = root / f"{session_id}.jsonl"
        self.files = (self.log,)

    def metadata(self) -> Line:
        first = records(self.log)[0][0]
        assert first["type"] == "metadata"
        return {"id": first["session_id"], **first}


class Chat:
    """<id>/meta.json, current.jsonl, archive.jsonl, summary.json"""

    def __init__(self, root: Path, session_id: str) -> None:
        self.folder = root / session_id
        self.log = self.folder / "current.jsonl"
        self.files = (self.folder / "archive.jsonl", self.log)

    def metadata(self) -> Line:
        found: Line = json.loads((self.folder / "meta.json").read_text(encoding="utf-8"))
        return {"id": found["session_id"], **found}
