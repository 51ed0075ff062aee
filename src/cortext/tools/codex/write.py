"""Writing a Codex conversation: a new rollout that the program resumes as one of its own.

The model gets the items; the program's screen shows the events beside them, so both are written. The file is
read back before anybody hears of it, and taken away again if it does not say the same.
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
from cortext.io import files as fsio
from cortext.model import clock
from cortext.model.message import ASSISTANT, TOOL_CALL, TOOL_RESULT, Message
from cortext.tools.base import About, Counts, Written
from cortext.tools.codex.mark import Mark
from cortext.tools.codex.pages import Page, folder_of, named
from cortext.tools.codex.read import CodexReading
from cortext.tools.codex.render import Rendering, Row
from cortext.tools.codex.talk import Talk
from cortext.tools.shared.verify import removed_unless_verified, unfaithful, verify

_TITLE = "Codex"


def new_thread() -> str:
    """A thread id as the program makes them: the time first, so that they sort by it."""
    number = time.time_ns() // 1_000_000 << 80 | int.from_bytes(os.urandom(10), "big")
    number = number & ~(0xF << 76) | 0x7 << 76
    return str(uuid.UUID(int=number & ~(0x3 << 62) | 0x2 << 62))


def write_begun(
    note: str, sessions: str, *, thread: str, project: str, title: str, version: str, provider: str
) -> Written:
    """A thread in which nothing was said yet but our note: the program opens it by its id."""
    return _write(
        Rendering([], note), sessions, thread=thread, project=project, title=title, version=version, provider=provider
    )


def write(
    rendering: Rendering, sessions: str, *, thread: str, project: str, title: str, version: str, provider: str
) -> Written:
    """Write the rollout below the tool's `sessions` folder, and read it back."""
    if not rendering.messages:
        raise UsageError("there is nothing to write: no message of this conversation has any text")
    return _write(rendering, sessions, thread=thread, project=project, title=title, version=version, provider=provider)


def _write(
    rendering: Rendering, sessions: str, *, thread: str, project: str, title: str, version: str, provider: str
) -> Written:
    rendering.finish()
    now = time.time()
    name = f"rollout-{time.strftime('%Y-%m-%dT%H-%M-%S', time.localtime(now))}-{thread}.jsonl"
    page = named(name)
    assert page is not None
    folder = os.path.join(sessions, folder_of(page))
    page = page._replace(path=os.path.join(folder, name))
    fsio.ensure_folder(folder)
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
    fsio.replace_file(page.path, _lines(rendering, meta, title))
    with removed_unless_verified(page.path):
        _check(rendering, page)
    return Written.of(rendering.normal, thread, page.path)


# ── the lines ────────────────────────────────────────────────────────────────────────────────────────


def _lines(rendering: Rendering, meta: dict[str, Any], title: str) -> Iterator[bytes]:
    """The whole file, a line at a time."""
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
    """The events beside the items. A turn begins with what the user says, and ends before the next."""

    def __init__(self, thread: str) -> None:
        self.thread = uuid.UUID(thread)
        self.time = ""
        self._count = 0
        self._turn = ""
        self._began = 0
        self._said = ""

    def before(self, row: Row) -> Iterator[dict[str, Any]]:
        if row.speaker == "user" or not self._turn:
            yield from self.end()
            self._turn = self._new_id()
            self._began = int(clock.to_epoch(row.timestamp) or 0)
            yield {"type": "task_started", **self._times()}
        self.time = row.timestamp

    def after(self, row: Row) -> Iterator[dict[str, Any]]:
        if not row.speaker:
            return
        if row.speaker == ASSISTANT:
            self._said = row.text
            content = {"type": "Text", "text": row.text}
            item = {"type": "AgentMessage", "id": row.payload["id"], "content": [content]}
        else:
            said: dict[str, Any] = {"type": "text", "text": row.text, "text_elements": []}
            item = {"type": "UserMessage", "id": self._new_id(), "content": [said]}
        moment = int((clock.to_epoch(row.timestamp) or 0) * 1000)
        where = {"thread_id": str(self.thread), "turn_id": self._turn, "item": item}
        yield {"type": "item_completed", **where, "started_at_ms": moment, "completed_at_ms": moment}

    def end(self) -> Iterator[dict[str, Any]]:
        if self._turn:
            ended = int(clock.to_epoch(self.time) or 0)
            yield {"type": "task_complete", "last_agent_message": self._said, **self._times(), "completed_at": ended}
        self._turn = self._said = ""

    def _times(self) -> dict[str, Any]:
        return {"turn_id": self._turn, "root_turn_id": self._turn, "started_at": self._began}

    def _new_id(self) -> str:
        self._count += 1
        return str(uuid.uuid5(self.thread, str(self._count)))


# ── reading it back ──────────────────────────────────────────────────────────────────────────────────


def _check(rendering: Rendering, page: Page) -> None:
    """The file gives back the messages; and what the model gets is words and calls in order, each answered."""
    reading = CodexReading([page], {})
    verify(_TITLE, rendering.messages, reading, reading.counts, operator.eq)
    plain = Talk("", About(), Counts())
    native: list[Message] = []
    for group in rendering.groups:
        for row in group.rows:
            native += plain.take(msgspec.structs.replace(row, mark=Mark()).encode().replace(b',"cortext":{}', b""), 0)
    native += plain.finish(for_good=True)
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
