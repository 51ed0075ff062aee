"""Conversations to write, and what became of them."""

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


def said(role: str, content: str = "", *parts: Part, **more: Any) -> Message:
    """A message with an id and a time of its own."""
    number = next(_count)
    fields = {"id": f"m{number}", "timestamp": f"2026-11-02T08:{number // 60 % 60:02d}:{number % 60:02d}.000Z", **more}
    return Message(role=role, content=content, parts=list(parts) or None, **fields)


def calls(identity: str, name: str = "Bash", arguments: Any = None) -> Part:
    return Part("tool_call", id=identity, name=name, input={"command": "ls"} if arguments is None else arguments)


def answers(identity: str, output: str = "ok", *, is_error: bool = False) -> Part:
    return Part("tool_result", call_id=identity, output=output, is_error=is_error)


def records(written: Written) -> list[Json]:
    return [json.loads(line) for line in Path(written.path).read_bytes().splitlines()]


def wire(written: Written) -> list[tuple[str, Any]]:
    """The turns as the program reads them: our own field does not count."""
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
    """Write, and read back."""
    written = tool.write(messages, project=str(folder))
    back, reading = read(at(Path(written.path)))
    assert reading.counts.damaged == reading.counts.unknown == {}
    return written, back
