"""Rollouts made in code: every kind of record that Codex writes, in the form in which it writes it."""

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
    """An id as the program makes them."""
    return f"{prefix}_{uuid.uuid5(uuid.NAMESPACE_OID, f'{prefix}{number}')}"


class Rollout:
    """A rollout that grows line by line; every item gets the next id of its kind."""

    def __init__(self, thread: str = THREAD, *, page: str = "", first: int = 0, **meta: Any) -> None:
        self.thread, self.page = thread, page or thread
        self.lines: list[bytes] = []
        self.ordinal = first
        self._made = 0
        described = {"session_id": thread, "id": thread, "timestamp": "2026-11-15T02:34:30.092Z", "cwd": "/work/boats"}
        described |= {"originator": "codex_exec", "cli_version": "0.166.0", "source": "exec", "thread_source": "user"}
        self.add("session_meta", described | {"base_instructions": {"text": "You are…\n" * 400}} | meta)

    def add(self, kind: str, payload: Json, **beside: Any) -> None:
        """One line."""
        line = {"timestamp": f"2026-11-15T02:34:{self.ordinal % 60:02d}.181Z", "ordinal": self.ordinal}
        line |= {"type": kind, "payload": payload, **beside}
        self.lines.append(json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode())
        self.ordinal += 1

    def item(self, prefix: str, payload: Json, **beside: Any) -> str:
        """An item with an id of its own; that id."""
        self._made += 1
        made = identity(f"{prefix}{self.page[-4:]}", self._made)
        kind = payload.pop("type")
        self.add("response_item", {"type": kind, "id": made, **payload}, **beside)
        return made

    def event(self, kind: str, **fields: Any) -> None:
        """An event."""
        self.add("event_msg", {"type": kind, **fields})

    def harness(self, text: str, kind: str, role: str = "user") -> None:
        """A message that the program put there."""
        content = [{"type": "input_text", "text": text}]
        self.item("msg", {"type": "message", "role": role, "content": content, **provenance(kind)})

    def start(self, model: str = "test-model") -> None:
        """What the program writes at the beginning of a turn."""
        self.event("task_started", turn_id="t1")
        self.add("turn_context", {"turn_id": "t1", "cwd": "/work/boats", "model": model, "summary": "none"})

    def user(self, text: str) -> str:
        """What the user typed, and the event beside it."""
        content = [{"type": "input_text", "text": text}]
        made = self.item("msg", {"type": "message", "role": "user", "content": content, **provenance("user.text")})
        self.event("item_completed", item={"type": "UserMessage", "content": [{"type": "text", "text": text}]})
        return made

    def think(self, text: str) -> str:
        """A piece of reasoning."""
        summary = [{"type": "summary_text", "text": text}] if text else []
        return self.item("rs", {"type": "reasoning", "summary": summary, "content": None, "encrypted_content": "c2Vh"})

    def says(self, text: str, **beside: Any) -> str:
        """What the model said."""
        self.event("item_completed", item={"type": "AgentMessage", "content": [{"type": "Text", "text": text}]})
        content = [{"type": "output_text", "text": text, "annotations": []}]
        return self.item(
            "msg", {"type": "message", "status": "completed", "role": "assistant", "content": content}, **beside
        )

    def call(self, call_id: str, name: str = "exec_command", arguments: str = '{"cmd": "cat note.txt"}') -> str:
        """A call of a tool."""
        return self.item("fc", {"type": "function_call", "name": name, "arguments": arguments, "call_id": call_id})

    def result(self, call_id: str, output: Any) -> str:
        """A tool's result."""
        return self.item("fco", {"type": "function_call_output", "call_id": call_id, "output": output})

    def cost(self, output: int = 5) -> None:
        """What the answer cost."""
        usage = {"input_tokens": 10, "cached_input_tokens": 0, "output_tokens": output, "total_tokens": 10 + output}
        self.add("token_usage_record", {"thread_id": self.thread, "response_id": "resp_1", "usage": usage})
        self.event("token_count", info={"total_token_usage": usage, "last_token_usage": usage}, rate_limits=None)

    def turn(self, said: str, answered: str) -> None:
        """A whole turn without tools."""
        self.start()
        self.user(said)
        self.says(answered)
        self.cost()
        self.event("task_complete", turn_id="t1", last_agent_message=answered)

    @property
    def data(self) -> bytes:
        """The file."""
        return b"".join(line + b"\n" for line in self.lines)

    def name(self, when: str = "2026-11-15T02-34-30") -> str:
        """The name of the file."""
        return f"rollout-{when}-{self.thread}{'' if self.page == self.thread else f'_{self.page}'}.jsonl"

    def save(self, home: Path, when: str = "2026-11-15T02-34-30", folder: str = "") -> Path:
        """Put it where the program would; where that is."""
        path = home / ".codex" / (folder or f"sessions/{when[:10].replace('-', '/')}") / self.name(when)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(self.data)
        return path


def provenance(*kinds: str) -> Json:
    """The program's note on who put the pieces of a message there."""
    return {"internal_chat_message_metadata_passthrough": {"turn_id": "t1", "content_item_kinds": list(kinds)}}


def everyday() -> Rollout:
    """A conversation with two turns, thinking, tool calls and all that the program writes around them."""
    rollout = Rollout()
    rollout.harness("<permissions instructions>…", "permissions.instructions", role="developer")
    rollout.harness("<environment_context>…</environment_context>", "environments.environment_context")
    rollout.add("world_state", {"full": True, "state": {"environments": {}}})
    rollout.start()
    rollout.event("thread_settings_applied", thread_settings={"model": "test-model"})
    rollout.user("Read note.txt, Ünïcode: 答え")
    rollout.think("I should read the note first.")
    rollout.says("Let me look.")
    rollout.call("call_1")
    rollout.call("call_2", "read_boat", '{"path": "boat.txt"}')
    rollout.cost(17)
    rollout.event("item_completed", item={"type": "CommandExecution", "aggregated_output": "the heron"})
    rollout.result("call_1", "Chunk ID: a\nWall time: 0.0 seconds\nProcess exited with code 1\nOutput:\nno such file\n")
    rollout.result("call_2", "a green boat")
    rollout.says("It is green.")
    rollout.cost(5)
    rollout.event("task_complete", turn_id="t1", last_agent_message="It is green.")
    rollout.turn("And now?", "Now we go.")
    return rollout


# What is said in it, by role.
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
    """All messages of a file, and the reading."""
    tool = Codex(home=str(home or path.parents[5]))
    transcript = tool.transcript_at(str(path))
    assert isinstance(transcript, Transcript)
    reading = tool.read(transcript, cursor)
    return list(reading), reading
