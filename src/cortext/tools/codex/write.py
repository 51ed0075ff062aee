"""Writes a conversation as a new rollout that Codex resumes as one of its own.

Codex sends the items to the model and shows the events on the screen, so both are written. The file is verified by
reading it back, and removed if a message differs.
"""

from __future__ import annotations

import operator
import os
import time
import uuid
from collections.abc import Iterator
from typing import Any

import msgspec

from cortext.errors import UsageError
from cortext.io import durable
from cortext.model import clock
from cortext.model.message import ASSISTANT, TOOL_CALL, TOOL_RESULT, Message
from cortext.tools.base import About, Counts, Written
from cortext.tools.codex.builder import MessageBuilder
from cortext.tools.codex.mark import Mark
from cortext.tools.codex.pages import Page, folder_of, from_name
from cortext.tools.codex.read import CodexReading
from cortext.tools.codex.render import Rendering, Row
from cortext.tools.shared.verify import removed_unless_verified, unfaithful, verify

_TITLE = "Codex"


def new_thread() -> str:
    """Return a new thread id in the form that Codex uses: a UUID of version 7, which sorts by time."""
    number = time.time_ns() // 1_000_000 << 80 | int.from_bytes(os.urandom(10), "big")
    number = number & ~(0xF << 76) | 0x7 << 76
    return str(uuid.UUID(int=number & ~(0x3 << 62) | 0x2 << 62))


def write_prompt(
    prompt: str, sessions: str, *, thread: str, project: str, title: str, version: str, provider: str
) -> Written:
    """Write a thread that contains only a prompt, for Codex to open by its id."""
    return _write(
        Rendering([], prompt), sessions, thread=thread, project=project, title=title, version=version, provider=provider
    )


def write(
    rendering: Rendering, sessions: str, *, thread: str, project: str, title: str, version: str, provider: str
) -> Written:
    """Write the rollout below Codex's `sessions` folder and read it back; remove it if a message differs."""
    if not rendering.messages:
        raise UsageError(
            "nothing to write: no message of this conversation has any text",
            kept="nothing was changed",
            hint="choose another conversation",
        )
    return _write(rendering, sessions, thread=thread, project=project, title=title, version=version, provider=provider)


def _write(
    rendering: Rendering, sessions: str, *, thread: str, project: str, title: str, version: str, provider: str
) -> Written:
    rendering.finish()
    now = time.time()
    name = f"rollout-{time.strftime('%Y-%m-%dT%H-%M-%S', time.localtime(now))}-{thread}.jsonl"
    page = from_name(name)
    assert page is not None
    folder = os.path.join(sessions, folder_of(page))
    page = page._replace(path=os.path.join(folder, name))
    durable.ensure_folder(folder)
    meta = {
        "session_id": thread,
        "id": thread,
        "timestamp": clock.from_epoch(now),
        "cwd": project,
        "originator": "cortext",
        "cli_version": version,
        "source": "cli",
        "thread_source": "user",
        "model_provider": provider,
        "history_mode": "paginated",
    }
    durable.replace_file(page.path, _lines(rendering, meta, title))
    with removed_unless_verified(page.path):
        _verify(rendering, page)
    return Written.of(rendering.normal, thread, page.path)


# ── lines ────────────────────────────────────────────────────────────────────────────────────────────


def _lines(rendering: Rendering, meta: dict[str, Any], title: str) -> Iterator[bytes]:
    """Yield the lines of the file."""
    first = {"timestamp": meta["timestamp"], "ordinal": 0, "type": "session_meta", "payload": meta}
    yield msgspec.json.encode({**first, "cortext": Mark(title=title)}) + b"\n"
    turns = _Turns(str(meta["id"]))
    ordinal = 1
    for group in rendering.groups:
        for row in group.rows:
            for event in turns.before(row):
                yield _event(row.timestamp, ordinal, event)
                ordinal += 1
            yield row.encode(ordinal) + b"\n"
            ordinal += 1
            for event in turns.after(row):
                yield _event(row.timestamp, ordinal, event)
                ordinal += 1
    for event in turns.end():
        yield _event(turns.time, ordinal, event)


def _event(timestamp: str, ordinal: int, payload: dict[str, Any]) -> bytes:
    line = {"timestamp": timestamp, "ordinal": ordinal, "type": "event_msg", "payload": payload}
    return msgspec.json.encode(line) + b"\n"


class _Turns:
    """The events between the items. A turn begins with a user message, and ends before the next."""

    def __init__(self, thread: str) -> None:
        self.thread = uuid.UUID(thread)
        self.time = ""
        self._count = 0
        self._turn = ""
        self._started = 0
        self._last_answer = ""

    def before(self, row: Row) -> Iterator[dict[str, Any]]:
        if row.speaker == "user" or not self._turn:
            yield from self.end()
            self._turn = self._new_id()
            self._started = int(clock.to_epoch(row.timestamp) or 0)
            yield {"type": "task_started", **self._times()}
        self.time = row.timestamp

    def after(self, row: Row) -> Iterator[dict[str, Any]]:
        if not row.speaker:
            return
        if row.speaker == ASSISTANT:
            self._last_answer = row.text
            content = {"type": "Text", "text": row.text}
            item = {"type": "AgentMessage", "id": row.payload["id"], "content": [content]}
        else:
            text: dict[str, Any] = {"type": "text", "text": row.text, "text_elements": []}
            item = {"type": "UserMessage", "id": self._new_id(), "content": [text]}
        milliseconds = int((clock.to_epoch(row.timestamp) or 0) * 1000)
        event = {"type": "item_completed", "thread_id": str(self.thread), "turn_id": self._turn, "item": item}
        yield {**event, "started_at_ms": milliseconds, "completed_at_ms": milliseconds}

    def end(self) -> Iterator[dict[str, Any]]:
        if self._turn:
            ended = int(clock.to_epoch(self.time) or 0)
            event = {"type": "task_complete", "last_agent_message": self._last_answer, **self._times()}
            yield {**event, "completed_at": ended}
        self._turn = self._last_answer = ""

    def _times(self) -> dict[str, Any]:
        return {"turn_id": self._turn, "root_turn_id": self._turn, "started_at": self._started}

    def _new_id(self) -> str:
        self._count += 1
        return str(uuid.uuid5(self.thread, str(self._count)))


# ── reading it back ──────────────────────────────────────────────────────────────────────────────────


def _verify(rendering: Rendering, page: Page) -> None:
    """Check that the messages come back unchanged, and that without our field every tool call has one result."""
    reading = CodexReading([page], {})
    verify(_TITLE, rendering.messages, reading, reading.counts, operator.eq)
    builder = MessageBuilder("", About(), Counts())
    native: list[Message] = []
    for group in rendering.groups:
        for row in group.rows:
            line = msgspec.structs.replace(row, mark=Mark()).encode().replace(b',"cortext":{}', b"")
            native += builder.add_line(line, 0)
    native += builder.finish(is_final=True)
    open_calls: set[str] = set()
    calls = 0
    for part in (part for message in native for part in message.parts or ()):
        if part.type == TOOL_CALL:
            calls += 1
            open_calls.add(part.id)
        elif part.type == TOOL_RESULT:
            if part.call_id not in open_calls:
                raise unfaithful(_TITLE, "calls and results do not match")
            open_calls.remove(part.call_id)
    if open_calls or calls != rendering.tool_calls:
        raise unfaithful(_TITLE, "calls and results do not match")
