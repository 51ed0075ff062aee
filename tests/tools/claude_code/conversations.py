"""Messages to write as native sessions, and helpers to inspect the result."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

from tests.tools.claude_code.corpus import Json, at, read

from cortext.model.message import Message, Part
from cortext.tools.base import Written
from cortext.tools.claude_code.adapter import ClaudeCode

_count = itertools.count(1)


def message_of(role: str, content: str = "", *parts: Part, **more: Any) -> Message:
    """Return a message with a new id and a later time than the one before."""
    number = next(_count)
    fields = {"id": f"m{number}", "timestamp": f"2026-11-02T08:{number // 60 % 60:02d}:{number % 60:02d}.000Z", **more}
    return Message(role=role, content=content, parts=list(parts) or None, **fields)


def call_part(identity: str, name: str = "Bash", arguments: Any = None) -> Part:
    return Part("tool_call", id=identity, name=name, input={"command": "ls"} if arguments is None else arguments)


def result_part(identity: str, output: str = "ok", *, is_error: bool = False) -> Part:
    return Part("tool_result", call_id=identity, output=output, is_error=is_error)


def records(written: Written) -> list[Json]:
    return [json.loads(line) for line in Path(written.path).read_bytes().splitlines()]


def native_turns(written: Written) -> list[tuple[str, Any]]:
    """Return the turns as Claude Code reads them, without our own field."""
    turns: list[tuple[str, Any]] = []
    for record in records(written):
        if record["type"] not in ("user", "assistant"):
            continue
        content = record["message"]["content"]
        for block in [{"type": "text", "text": content}] if isinstance(content, str) else content:
            kind = {"text": "text", "tool_use": "name", "tool_result": "content"}[block["type"]]
            turns.append((f"{record['type']}/{block['type']}", block[kind]))
    return turns


def round_trip(tool: ClaudeCode, messages: list[Message], folder: Path) -> tuple[Written, list[Message]]:
    """Write a session and read it back."""
    written = tool.write(messages, project=str(folder))
    back, reading = read(at(Path(written.path)))
    assert reading.counts.damaged == reading.counts.unknown == {}
    return written, back
