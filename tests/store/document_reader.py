"""A reader written from docs/file-formats.md alone: nothing of cortext is imported here, and nothing may be."""

from __future__ import annotations

import base64
import hashlib
import json
from pathlib import Path
from typing import Any

Line = dict[str, Any]
AROUND = b"\0 \t\r"


def records(path: Path) -> list[tuple[Line, bytes]]:
    """Every whole record of a file with its bytes ("Reading a damaged file", 1 to 3 and 5)."""
    found: list[tuple[Line, bytes]] = []
    raw = path.read_bytes() if path.exists() else b""
    for line in raw.split(b"\n"):
        rest = line.strip(AROUND).removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace")
        while rest:
            try:
                value, end = json.JSONDecoder().raw_decode(rest)
            except (ValueError, RecursionError):
                break
            if not isinstance(value, dict) or "\ufffd" in rest[:end]:
                break
            found.append((value, rest[:end].encode("utf-8")))
            rest = rest[end:].strip(AROUND.decode())
    return found


def messages(*files: Path) -> list[Line]:
    """The messages of a session, from its files in order: the archive first."""
    found: list[Line] = []
    seen: set[str] = set()
    last = -1
    for file in files:
        for record, raw in records(file):
            if record.get("type") == "metadata" or not isinstance(record.get("role"), str) or not record["role"]:
                continue
            number = record.get("seq")
            if not isinstance(number, int) or not 0 <= number < 2**53:
                number = last + 1
            name = record.get("id") or _name(raw, number)
            if number <= last:
                if name in seen:
                    continue  # a copy, or a message that a move left in both files
                number = last + 1
            last = number
            seen.add(name)
            found.append({**record, "seq": number, "id": name})
    return found


def _name(raw: bytes, number: int) -> str:
    return "x" + hashlib.blake2b(raw, digest_size=12, salt=number.to_bytes(8, "big")).hexdigest()


def text_of(message: Line) -> str:
    """The plain text of a message."""
    if message.get("content"):
        return str(message["content"])
    keys = {"text": "text", "tool_result": "output"}
    said = (part.get(keys[part["type"]]) for part in message.get("parts", []) if part["type"] in keys)
    return "\n\n".join(filter(None, said))


def talk(found: list[Line]) -> list[Line]:
    """The talk as it stands."""
    kept = [message for message in found if not message.get("aside")]
    places = {message["id"]: place for place, message in enumerate(kept)}
    way: list[Line] = []
    place = len(kept) - 1
    while place >= 0:
        message = kept[place]
        way.append(message)
        parent = message.get("parent", "")
        if parent == "(beginning)":
            break
        before = places.get(parent, place - 1)
        place = before if before < place else place - 1
    return [message for message in reversed(way) if not message.get("partial")]


def quarantine(log: Path) -> list[tuple[str, int, bytes]]:
    """What was put aside: file, place and bytes, each held against its length and hash."""
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
