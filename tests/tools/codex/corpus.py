"""Builds rollouts in the format of Codex, with every kind of record that it writes."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

from cortext.model.message import Message
from cortext.tools.base import Transcript
from cortext.tools.codex.adapter import Codex

Json = dict[str, Any]
THREAD = "01a1dd0e-6349-7f93-8a94-5b12fdee4e31"
DAY = "2026/11/15"
PIXEL = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk"


def identity(prefix: str, number: int) -> str:
    """Return an id in the form that Codex uses."""
    return f"{prefix}_{uuid.uuid5(uuid.NAMESPACE_OID, f'{prefix}{number}')}"


class Rollout:
    """A rollout being built line by line. Every item gets the next id of its kind."""

    def __init__(self, thread: str = THREAD, *, page: str = "", first: int = 0, **meta: Any) -> None:
        self.thread, self.page = thread, page or thread
        self.lines: list[bytes] = []
        self.ordinal = first
        self._count = 0
        fields = {"session_id": thread, "id": thread, "timestamp": "2026-11-15T02:34:30.092Z", "cwd": "/work/boats"}
        fields |= {"originator": "codex_exec", "cli_version": "0.166.0", "source": "exec", "thread_source": "user"}
        self.add("session_meta", fields | {"base_instructions": {"text": "You are…\n" * 400}} | meta)

    def add(self, kind: str, payload: Json, **beside: Any) -> None:
        """Add a line; `beside` are fields next to the payload."""
        line = {"timestamp": f"2026-11-15T02:34:{self.ordinal % 60:02d}.181Z", "ordinal": self.ordinal}
        line |= {"type": kind, "payload": payload, **beside}
        self.lines.append(json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode())
        self.ordinal += 1

    def item(self, prefix: str, payload: Json, **beside: Any) -> str:
        """Add an item with a new id; return the id."""
        self._count += 1
        item_id = identity(f"{prefix}{self.page[-4:]}", self._count)
        kind = payload.pop("type")
        self.add("response_item", {"type": kind, "id": item_id, **payload}, **beside)
        return item_id

    def event(self, kind: str, **fields: Any) -> None:
        """Add an event."""
        self.add("event_msg", {"type": kind, **fields})

    def insert(self, text: str, kind: str, role: str = "user") -> None:
        """Add a message that Codex inserted."""
        content = [{"type": "input_text", "text": text}]
        self.item("msg", {"type": "message", "role": role, "content": content, **provenance(kind)})

    def start(self, model: str = "test-model") -> None:
        """Add what Codex writes at the beginning of a turn."""
        self.event("task_started", turn_id="t1")
        self.add("turn_context", {"turn_id": "t1", "cwd": "/work/boats", "model": model, "summary": "none"})

    def user(self, text: str) -> str:
        """Add a user message and its event; return its id."""
        content = [{"type": "input_text", "text": text}]
        item_id = self.item("msg", {"type": "message", "role": "user", "content": content, **provenance("user.text")})
        self.event("item_completed", item={"type": "UserMessage", "content": [{"type": "text", "text": text}]})
        return item_id

    def think(self, text: str) -> str:
        """Add a reasoning item; return its id."""
        summary = [{"type": "summary_text", "text": text}] if text else []
        return self.item("rs", {"type": "reasoning", "summary": summary, "content": None, "encrypted_content": "c2Vh"})

    def says(self, text: str, **beside: Any) -> str:
        """Add an assistant message and its event; return its id."""
        self.event("item_completed", item={"type": "AgentMessage", "content": [{"type": "Text", "text": text}]})
        content = [{"type": "output_text", "text": text, "annotations": []}]
        return self.item(
            "msg", {"type": "message", "status": "completed", "role": "assistant", "content": content}, **beside
        )

    def call(self, call_id: str, name: str = "exec_command", arguments: str = '{"cmd": "cat note.txt"}') -> str:
        """Add a tool call; return its id."""
        return self.item("fc", {"type": "function_call", "name": name, "arguments": arguments, "call_id": call_id})

    def result(self, call_id: str, output: Any) -> str:
        """Add a tool result; return its id."""
        return self.item("fco", {"type": "function_call_output", "call_id": call_id, "output": output})

    def usage(self, output: int = 5) -> None:
        """Add the token usage of the answer."""
        usage = {"input_tokens": 10, "cached_input_tokens": 0, "output_tokens": output, "total_tokens": 10 + output}
        self.add("token_usage_record", {"thread_id": self.thread, "response_id": "resp_1", "usage": usage})
        limits = {
            "primary": {"used_percent": 7.0, "window_minutes": 300, "resets_at": 1_794_722_400},
            "secondary": {"used_percent": 77.0, "window_minutes": 10_080, "resets_at": 1_795_000_000},
        }
        self.event("token_count", info={"total_token_usage": usage, "last_token_usage": usage}, rate_limits=limits)

    def turn(self, prompt: str, answer: str) -> None:
        """Add a complete turn without tools."""
        self.start()
        self.user(prompt)
        self.says(answer)
        self.usage()
        self.event("task_complete", turn_id="t1", last_agent_message=answer)

    @property
    def data(self) -> bytes:
        """The content of the file."""
        return b"".join(line + b"\n" for line in self.lines)

    def name(self, when: str = "2026-11-15T02-34-30") -> str:
        """The name of the file."""
        return f"rollout-{when}-{self.thread}{'' if self.page == self.thread else f'_{self.page}'}.jsonl"

    def save(self, home: Path, when: str = "2026-11-15T02-34-30", folder: str = "") -> Path:
        """Save it where Codex would; return the path."""
        path = home / ".codex" / (folder or f"sessions/{when[:10].replace('-', '/')}") / self.name(when)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.data)
        return path


def provenance(*kinds: str) -> Json:
    """Return the field in which Codex records the kinds of a message's content items."""
    return {"internal_chat_message_metadata_passthrough": {"turn_id": "t1", "content_item_kinds": list(kinds)}}


def everyday() -> Rollout:
    """Return a conversation with two turns, thinking, tool calls and all that Codex writes around them."""
    rollout = Rollout()
    rollout.insert("<permissions instructions>…", "permissions.instructions", role="developer")
    rollout.insert("<environment_context>…</environment_context>", "environments.environment_context")
    rollout.add("world_state", {"full": True, "state": {"environments": {}}})
    rollout.start()
    rollout.event("thread_settings_applied", thread_settings={"model": "test-model"})
    rollout.user("Read note.txt, Ünïcode: 答え")
    rollout.think("I should read the note first.")
    rollout.says("Let me look.")
    rollout.call("call_1")
    rollout.call("call_2", "read_boat", '{"path": "boat.txt"}')
    rollout.usage(17)
    rollout.event("item_completed", item={"type": "CommandExecution", "aggregated_output": "the heron"})
    rollout.result("call_1", "Chunk ID: a\nWall time: 0.0 seconds\nProcess exited with code 1\nOutput:\nno such file\n")
    rollout.result("call_2", "a green boat")
    rollout.says("It is green.")
    rollout.usage(5)
    rollout.event("task_complete", turn_id="t1", last_agent_message="It is green.")
    rollout.turn("And now?", "Now we go.")
    return rollout


# Role and text of its messages.
EVERYDAY = (
    ("user", "Read note.txt, Ünïcode: 答え"),
    ("assistant", "Let me look."),
    ("assistant", ""),
    ("assistant", ""),
    ("tool", "Chunk ID: a\nWall time: 0.0 seconds\nProcess exited with code 1\nOutput:\nno such file\n"),
    ("tool", "a green boat"),
    ("assistant", "It is green."),
    ("user", "And now?"),
    ("assistant", "Now we go."),
)


def read(path: Path, cursor: Json | None = None, home: Path | None = None) -> tuple[list[Message], Any]:
    """Return all messages of a file, and the reading."""
    tool = Codex(home=str(home or path.parents[5]))
    transcript = tool.transcript_at(str(path))
    assert isinstance(transcript, Transcript)
    reading = tool.read(transcript, cursor)
    return list(reading), reading
