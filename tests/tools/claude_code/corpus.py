"""Builds transcripts in the format of Claude Code, record by record."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

from cortext.model.message import Message
from cortext.tools.base import Transcript, TranscriptReading
from cortext.tools.claude_code.adapter import ClaudeCode

KEY = "0b5c8a52-6f3d-4a63-9d7e-2f6c1a7d0e11"
PROJECT = "/work/sea-shanties"
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ"

Json = dict[str, Any]


class Script:
    """A transcript being built. Each record follows the one before, unless it is given another parent."""

    def __init__(self, key: str = KEY, cwd: str = PROJECT) -> None:
        self.key, self.cwd = key, cwd
        self.lines: list[bytes] = []
        self.tip: str | None = None
        self._count = 0

    def raw(self, record: Json | bytes) -> None:
        line = (
            record
            if isinstance(record, bytes)
            else json.dumps(record, ensure_ascii=False, separators=(",", ":")).encode()
        )
        self.lines.append(line)

    def record(self, kind: str, fields: Json, *, parent: str | None = "", chain: bool = True, **more: Any) -> str:
        """Add a record to the tree; return its uuid."""
        self._count += 1
        identity = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{self.key} {self._count}"))
        record = {
            "parentUuid": self.tip if parent == "" else parent,
            "isSidechain": False,
            "type": kind,
            **fields,
            "uuid": identity,
            "timestamp": f"2026-11-01T10:{self._count // 60 % 60:02d}:{self._count % 60:02d}.000Z",
            "cwd": self.cwd,
            "sessionId": self.key,
            "version": "2.1.325",
            **more,
        }
        self.raw(record)
        if chain:
            self.tip = identity
        return identity

    def user(self, content: Any, **more: Any) -> str:
        return self.record("user", {"message": {"role": "user", "content": content}}, **more)

    def assistant(
        self, *blocks: Any, answer: str = "", tokens: int = 5, model: str = "claude-opus-5-5", **more: Any
    ) -> str:
        content = [{"type": "text", "text": block} if isinstance(block, str) else block for block in blocks]
        message = {
            "id": answer or f"msg_{self._count}",
            "type": "message",
            "role": "assistant",
            "model": model,
            "content": content,
            "usage": {"input_tokens": 10, "output_tokens": tokens},
        }
        return self.record("assistant", {"message": message}, **more)

    def result(self, call: str, content: Any, *, is_error: bool = False, **more: Any) -> str:
        block = {"tool_use_id": call, "type": "tool_result", "content": content, "is_error": is_error}
        more |= {"toolUseResult": {"stdout": content}, "sourceToolAssistantUUID": more.get("parent") or self.tip}
        return self.record("user", {"message": {"role": "user", "content": [block]}}, **more)

    def attachment(self, **fields: Any) -> str:
        return self.record("attachment", {"attachment": fields})

    def data(self) -> bytes:
        return b"".join(line + b"\n" for line in self.lines)

    def save(self, folder: Path) -> Transcript:
        path = folder / f"{self.key}.jsonl"
        path.write_bytes(self.data())
        return at(path)


def call(identity: str, name: str = "Bash", **arguments: Any) -> Json:
    return {"type": "tool_use", "id": identity, "name": name, "input": arguments or {"command": "ls"}}


def at(path: Path) -> Transcript:
    return Transcript(tool="claude", key=path.stem, path=str(path))


def read(transcript: Transcript, cursor: Json | None = None) -> tuple[list[Message], TranscriptReading]:
    reading = ClaudeCode(home="/nowhere", environ={}).read(transcript, cursor)
    return list(reading), reading


def short(message: Message) -> tuple[str, str]:
    """Return the role and text of a message, for readable comparisons."""
    calls = [f"{part.name}!" for part in message.parts_of("tool_call")]
    return message.role, message.text or " ".join(calls) or "~"


def full_conversation() -> Script:
    """Return a conversation with every kind of record that Claude Code is known to write."""
    script = Script()
    script.raw({"type": "queue-operation", "operation": "enqueue", "content": "Sing one", "sessionId": KEY})
    first = script.user("Sing one", promptId="p1")
    script.raw({"type": "file-history-snapshot", "messageId": first, "snapshot": {}, "isSnapshotUpdate": False})
    for kind in ("environment", "skill_listing", "prompt_snapshot"):
        script.attachment(type=kind, content="x" * 300)
    script.raw({"type": "atis-latch", "atis": "", "sessionId": KEY})
    script.raw({"type": "api-request-shape", "sessionId": KEY, "shape": {"system": []}})
    blob = {"role": "user", "content": [{"type": "text", "text": "Sing one"}]}
    script.raw({"type": "api-request-blob", "sessionId": KEY, "hash": "00", "message": blob})
    script.raw({"type": "api-request", "sessionId": KEY, "params": {}})
    thinking = {"type": "thinking", "thinking": "Which one?", "signature": "c2ln"}
    script.assistant(thinking, answer="msg_a", tokens=40)
    script.assistant("Let me look.", answer="msg_a", tokens=40)
    one = script.assistant(call("toolu_1", command="ls songs"), answer="msg_a", tokens=40)
    two = script.assistant(call("toolu_2", "Read", file_path="a.txt"), answer="msg_a", tokens=40)
    script.record("progress", {"data": {"type": "bash_progress", "output": "…"}}, parent=one, chain=False)
    script.result("toolu_1", "drunken sailor\nwellerman", parent=one)
    script.result(
        "toolu_2", [{"type": "text", "text": "way hay"}, {"type": "text", "text": "up she rises"}], parent=two
    )
    script.raw({"type": "tools-used", "tools": ["Bash", "Read"], "sessionId": KEY})
    script.attachment(type="queued_command", prompt="The short one, please", commandMode="prompt")
    script.assistant("Way hay, up she rises.", answer="msg_b", tokens=9)
    script.record("system", {"subtype": "stop_hook_summary", "hookCount": 1})
    script.record("system", {"subtype": "turn_duration", "durationMs": 1})
    script.raw({"type": "last-prompt", "lastPrompt": "Sing one", "leafUuid": script.tip, "sessionId": KEY})
    script.raw({"type": "cost-state", "sessionId": KEY, "totalCostUSD": 0})
    script.user(
        "<command-message>workspace.brainstorm</command-message>\n<command-name>/workspace.brainstorm</command-name>\n"
        '<command-args>A song\'s "key"</command-args>'
    )
    script.user([{"type": "text", "text": "# Brainstorm\nTopic: a song's key"}], isMeta=True)
    script.assistant("D minor.", tokens=3)
    script.record("system", {"subtype": "compact_boundary"}, parent=None, logicalParentUuid=script.tip)
    script.user("Summary: they sang.", isCompactSummary=True, isVisibleInTranscriptOnly=True)
    script.user("<local-command-caveat>…</local-command-caveat>", isMeta=True)
    script.user(
        "<command-name>/compact</command-name>\n   <command-message>compact</command-message>\n"
        "   <command-args></command-args>"
    )
    script.user("<local-command-stdout>Compacted</local-command-stdout>")
    picture = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
    script.user([{"type": "text", "text": "What is this?"}, picture])
    script.assistant("A pixel.", tokens=4)
    script.assistant("API Error: 500", model="<synthetic>", isApiErrorMessage=True)
    script.raw(
        {"type": "summary", "summary": "Somebody else's talk", "leafUuid": "00000000-0000-4000-8000-000000000000"}
    )
    script.raw({"type": "pr-link", "prNumber": 1, "sessionId": KEY})
    script.raw({"type": "ai-title", "aiTitle": "Shanties", "sessionId": KEY})
    return script


FULL_CONVERSATION = [
    ("user", "Sing one"),
    ("assistant", "~"),
    ("assistant", "Let me look."),
    ("assistant", "Bash!"),
    ("assistant", "Read!"),
    ("tool", "drunken sailor\nwellerman"),
    ("tool", "way hay\nup she rises"),
    ("user", "The short one, please"),
    ("assistant", "Way hay, up she rises."),
    ("user", '/workspace.brainstorm A song\'s "key"'),
    ("assistant", "D minor."),
    ("user", "/compact"),
    ("system", "Compacted"),
    ("user", "What is this?"),
    ("assistant", "A pixel."),
    ("system", "API Error: 500"),
]
