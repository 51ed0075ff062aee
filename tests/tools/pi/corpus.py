"""Sessions of Pi for the tests, with the entries as version 0.87.1 writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

KEY = "01a1e9ad-3f95-7594-8152-462736593870"
PROJECT = "/work/boats"
NAME = f"2026-11-17T12-00-00-000Z_{KEY}.jsonl"

Json = dict[str, Any]


class Chat:
    """A session: each method appends an entry after the previous one, and returns its id."""

    def __init__(self) -> None:
        start = "2026-11-17T12:00:00.000Z"
        self.entries: list[Json] = [{"type": "session", "version": 3, "id": KEY, "timestamp": start, "cwd": PROJECT}]
        self.last: str | None = None

    @property
    def lines(self) -> tuple[bytes, ...]:
        """The lines of the file."""
        return tuple(json.dumps(entry, ensure_ascii=False, separators=(",", ":")).encode() for entry in self.entries)

    def save(self, home: Path) -> Path:
        """Write the file where Pi has it."""
        path = home / ".pi/agent/sessions/--work-boats--" / NAME
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"".join(line + b"\n" for line in self.lines))
        return path

    def add(self, kind: str, /, **fields: Any) -> str:
        """Append an entry of any kind."""
        number = len(self.entries)
        identity = f"{number:08x}"
        stamp = f"2026-11-17T12:{number // 60:02d}:{number % 60:02d}.275Z"
        self.entries.append({"type": kind, "id": identity, "parentId": self.last, "timestamp": stamp, **fields})
        self.last = identity
        return identity

    def message(self, role: str, **fields: Any) -> str:
        """Append a message of any role."""
        return self.add("message", message={"role": role, "timestamp": 1794921808255, **fields})

    def user(self, words: str) -> str:
        """Append what the user said."""
        return self.message("user", content=[text(words)])

    def answer(self, *blocks: Json, stop: str = "stop") -> str:
        """Append an answer of the model."""
        usage = {"input": 10, "output": 5, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 15}
        return self.message("assistant", content=list(blocks), model="test-model", usage=usage, stopReason=stop)

    def result(self, call: str, output: str, *, failed: bool = False) -> str:
        """Append the result of a call."""
        return self.message("toolResult", toolCallId=call, toolName="bash", content=[text(output)], isError=failed)


def text(words: str) -> Json:
    """Return a block of text."""
    return {"type": "text", "text": words}


def call(key: str, command: str) -> Json:
    """Return a block with a tool call."""
    return {"type": "toolCall", "id": key, "name": "bash", "arguments": {"command": command}}


def everyday() -> Chat:
    """Return a session with every kind of entry."""
    chat = Chat()
    chat.add("model_change", provider="test", modelId="test-model")
    chat.add("thinking_level_change", thinkingLevel="off")
    chat.message("system", content="", sections={"preamble": "You are an expert."}, toolsAdded=[])
    chat.user("Read note.txt, Ünïcode: 答え")
    thought = {"type": "thinking", "thinking": "hm", "thinkingSignature": "reasoning_content"}
    chat.answer(thought, text("Let me look."), call("c1", "cat note.txt"), call("c2", "cat gone.txt"), stop="toolUse")
    chat.result("c1", "the heron\n")
    chat.result("c2", "no such file", failed=True)
    chat.answer(text("It stands still."))
    chat.add("session_info", name="The heron")
    chat.message("user", content="And as plain text?")
    chat.answer(text("Too."))
    chat.message("bashExecution", command="ls", output="note.txt", exitCode=0, cancelled=False, truncated=False)
    chat.user("Plan.\n\n<!-- cortext:command workspace.plan -->boats<!-- cortext:end -->\n")
    chat.add("usage", kind="cache_warm", provider="test", model="m", usage={})
    chat.add("custom", customType="mine", data={"count": 1})
    chat.add("custom_message", customType="mine", content="An extension says this.", display=True)
    chat.message("user", content=[text("Look at it"), {"type": "image", "data": "AAAA", "mimeType": "image/png"}])
    chat.add("label", targetId="00000004", label="here")
    chat.add("branch_summary", fromId="00000004", summary="They looked elsewhere.")
    chat.add("compaction", summary="They talked.", firstKeptEntryId="00000004", tokensBefore=9)
    chat.add("context_edit", targetId="00000004", replacement=None)
    chat.answer(text("Going on."))
    return chat


EVERYDAY = (
    ("user", "Read note.txt, Ünïcode: 答え"),
    ("assistant", "Let me look."),
    ("tool", "the heron\n"),
    ("tool", "no such file"),
    ("assistant", "It stands still."),
    ("user", "And as plain text?"),
    ("assistant", "Too."),
    ("user", "!ls\nnote.txt"),
    ("user", "/workspace.plan boats"),
    ("user", "An extension says this."),
    ("user", "Look at it"),
    ("system", "They looked elsewhere."),
    ("assistant", "Going on."),
)
