"""Writes a conversation as a new rollout that Codex resumes as one of its own.

Codex sends the items to the model and shows the events on the screen, so both are written. The file is verified by
reading it back, and removed if a message differs.

How Codex treats the items: a call with a text instead of arguments is that of a custom tool; a result has no error
flag; a long result is shortened when it is loaded, unless the record sets a higher limit. Each item has a field of our
own, so that reading gives back the original messages.
"""

from __future__ import annotations

import operator
import os
import time
import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from cortext.errors import DamagedData, UsageError
from cortext.io import durable, new_files
from cortext.model import clock
from cortext.model.message import ASSISTANT, TOOL, TOOL_CALL, TOOL_RESULT, USER, Message
from cortext.model.turns import Block, Call, Difference, Image, Result, Text, Turn, Turns, standalone
from cortext.safety.framing import GO_ON
from cortext.tools.base import About, Counts, Launch, Messages, Transcript, Withheld, Written
from cortext.tools.codex.adapter import Codex
from cortext.tools.codex.live import DEFAULT, current_provider, interactive
from cortext.tools.codex.messages import MessageBuilder
from cortext.tools.codex.pages import (
    COPIES,
    Page,
    as_page,
    folder_of,
    from_name,
    is_compacted,
    is_thread,
    provider_of,
    scan,
    segments,
)
from cortext.tools.codex.read import CodexReader, CodexReading
from cortext.tools.codex.records import Mark
from cortext.tools.shared.native import removed_unless_verified, unfaithful, verify
from cortext.tools.shared.parts import FileWriter

_TITLE = "Codex"
_NAMESPACE = uuid.UUID("5c1f0e0a-6d6b-5d0f-9c57-3c1a4b7f2e11")
_SHORT_RESULT = 4_000  # bytes; up to this size a result needs no limit of its own
_LEAST_LIMIT = 3_000  # tokens


class CodexWriter(FileWriter[Codex]):
    """Writes threads, and says how Codex is started with one."""

    def __init__(self, tool: Codex) -> None:
        super().__init__(tool)
        self.reader = CodexReader(tool)

    def put_back(self, copy: str, *, project: str) -> str:
        """Restore the pages of a thread that are no longer in the store; return the thread's id."""
        transcript = self.reader.transcript_at(copy)
        if transcript is None:
            raise DamagedData(f"not a transcript of Codex: {copy}", kept="the file is unchanged")
        present = {page.page for page in self.reader.all_pages()}
        pages = list(scan(copy + COPIES)) or [as_page(copy, transcript.key)]
        for page in pages:
            if page.page not in present:
                folder = os.path.join(self.tool.sessions, folder_of(page))
                name = os.path.basename(page.path) if page.path != copy else f"rollout-{page.when}-{page.thread}.jsonl"
                durable.ensure_folder(folder)
                new_files.mirror_file(page.path, os.path.join(folder, name))
        return transcript.key

    def withheld(self, transcript: Transcript) -> Withheld | None:
        """Return nothing withheld, or None if the thread was compacted: Codex alone knows what it then sends."""
        pages, by_id = self.reader.pages_of(transcript)
        paths = [segment.page.path for segment in segments(pages, by_id, [])]
        return None if any(map(is_compacted, paths)) else Withheld()

    def refusal(self, transcript: Transcript) -> str:
        """Return that the thread was held with a model provider that is not the current one."""
        held_with, current = provider_of(self.reader.pages_of(transcript)[0]), current_provider(self.tool.folder)
        if not held_with or not current or held_with == current:
            return ""
        return f"it was held with the model provider {held_with!r}, and the current one is {current!r}"

    def preview(self, messages: Messages) -> Written:
        """Return what `write` would report for these messages."""
        return Written.of(Rendering(messages).normal)

    def write(
        self, messages: Messages, *, project: str, title: str = "", key: str = "", model: str = "", note: str = ""
    ) -> Written:
        """Write a new thread with these messages as real turns. Its model is set by the user or by `launch`."""
        rendering = Rendering(messages, note)
        if not rendering.messages:
            raise UsageError(
                "nothing to write: no message of this conversation has any text",
                kept="nothing was changed",
                hint="choose another conversation",
            )
        is_free = is_thread(key) and not any(page.thread == key for page in self.reader.all_pages())
        return self._write(rendering, key if is_free else new_thread(), project, title)

    def _write(self, rendering: Rendering, thread: str, project: str, title: str) -> Written:
        """Write the rollout and read it back; remove it if a message differs."""
        rendering.finish()
        now = time.time()
        name = f"rollout-{time.strftime('%Y-%m-%dT%H-%M-%S', time.localtime(now))}-{thread}.jsonl"
        page = from_name(name)
        assert page is not None
        folder = os.path.join(self.tool.sessions, folder_of(page))
        page = page._replace(path=os.path.join(folder, name))
        durable.ensure_folder(folder)
        meta = {
            "session_id": thread,
            "id": thread,
            "timestamp": clock.from_epoch(now),
            "cwd": os.path.abspath(project),
            "originator": "cortext",
            "cli_version": self.tool.tested_version,
            "source": "cli",
            "thread_source": "user",
            "model_provider": current_provider(self.tool.folder) or DEFAULT,
            "history_mode": "paginated",
        }
        durable.replace_file(page.path, _lines(rendering, meta, title))
        with removed_unless_verified(page.path):
            _verify(rendering, page)
        return Written.of(rendering.normal, thread, page.path)

    def launch_new(self, *, project: str, prompt: str, title: str = "", model: str = "") -> tuple[Written, Launch]:
        """Write a thread that contains only the prompt, and return how to start Codex with it.

        Codex cannot start a new thread with a given id, only resume one.
        """
        thread = new_thread()
        launch = self.launch(thread, project=project, prompt=GO_ON, model=model)
        written = self._write(Rendering([], prompt), thread, project, title)
        return written, launch

    def launch(self, written_or_key: str, *, project: str, prompt: str = "", model: str = "") -> Launch:
        """Return how to start Codex interactively with that thread open; it sends the prompt at once."""
        return interactive(self.tool, written_or_key, project=project, prompt=prompt, model=model)


# ── items ────────────────────────────────────────────────────────────────────────────────────────────


class Row(msgspec.Struct):
    """One item to write: its payload, its metadata, and our own field."""

    payload: dict[str, Any]
    timestamp: str
    mark: Mark
    metadata: dict[str, Any] | None = None

    @property
    def speaker(self) -> str:
        """The role that Codex shows for it: user, assistant, or empty if it is not a message."""
        return str(self.payload["role"]) if self.payload["type"] == "message" else ""

    @property
    def text(self) -> str:
        """The text of a message."""
        return "\n\n".join(content["text"] for content in self.payload["content"] if "text" in content)

    def encode(self, ordinal: int | None = None) -> bytes:
        """Return the line, with its keys in the order that Codex uses."""
        line: dict[str, Any] = {"timestamp": self.timestamp}
        if ordinal is not None:
            line["ordinal"] = ordinal
        line |= {"type": "response_item", "payload": self.payload}
        if self.metadata:
            line["metadata"] = self.metadata
        line["cortext"] = self.mark
        return msgspec.json.encode(line)


class Group(msgspec.Struct):
    """The items of one message; `message` is None if they were added. A note has no event, so it is not shown."""

    message: Message | None
    rows: list[Row]
    is_note: bool = False


class Rendering:
    """The items for a sequence of messages; `normal` counts what had to change."""

    def __init__(self, messages: Sequence[Message], note: str = "") -> None:
        self.normal = Turns(messages, words_as_input=True, images_in=(USER, TOOL))
        self._time = ""
        self.groups = [self._group(number, turn) for number, turn in enumerate(self.normal.turns)]
        if note:
            self.groups.insert(0, self._group(len(self.groups), Turn(USER, [Text(note)], None)))
            first = self.groups[1].rows[0].timestamp if len(self.groups) > 1 else clock.now()
            self.groups[0].rows[0].timestamp = first
            self.groups[0].is_note = True

    @property
    def messages(self) -> list[Message]:
        """The messages that reading the file must give back."""
        return [group.message for group in self.groups if group.message is not None]

    @property
    def tool_calls(self) -> int:
        return self.normal.tool_calls

    def finish(self) -> None:
        """Add what only a real file needs, not a preview: ids, and messages in our own field.

        If the items contain less than the message, the field contains the message itself.
        """
        builder = MessageBuilder("", About(), Counts())
        for group in self.groups:
            for row in group.rows:
                if "id" in row.payload:
                    prefix, _, name = row.payload["id"].partition(" ")
                    row.payload["id"] = f"{prefix}_{uuid.uuid5(_NAMESPACE, name)}"
            if group.message is None:
                continue
            if [read for row in group.rows for read in builder.add_line(row.encode(), 0)] != [group.message]:
                group.rows[0].mark.was = msgspec.to_builtins(group.message)

    # ── one turn ─────────────────────────────────────────────────────────────────────────────────────

    def _group(self, number: int, turn: Turn) -> Group:
        message = standalone(turn.message) if turn.message is not None else None
        self._time = (clock.normalise(message.timestamp) if message else "") or self._time or clock.now()
        rows: list[Row] = []
        for block in turn.blocks:
            self._add(rows, block, turn.role, f"{number}/{message.id if message else ''}/{len(rows)}")
        for index, row in enumerate(rows):
            row.mark = Mark(id=message.id, more=index > 0) if message else Mark(added=True)
        if message is not None:
            first = rows[0].mark
            first.of, first.model, first.tokens, first.usage = len(rows), message.model, message.tokens, message.usage
        return Group(message, rows)

    def _add(self, rows: list[Row], block: Block, role: str, seed: str) -> None:
        if isinstance(block, Call):
            rows.append(Row(_call(block, seed), self._time, Mark()))
        elif isinstance(block, Result):
            if block.is_error and block.part is not None:
                self.normal.note(Difference.ERROR_FLAG)
            rows.append(Row(_result(block), self._time, Mark()))
            _allow_length(rows[-1])
        else:
            content = {"type": "output_text" if role == ASSISTANT else "input_text", "text": block.whole}
            if isinstance(block, Image):
                url = f"data:{block.picture.kind};base64,{block.picture.base64}"
                content = {"type": "input_image", "image_url": url}
            if rows and rows[-1].speaker == role:
                rows[-1].payload["content"].append(content)
            else:
                payload = {"type": "message", "id": f"msg {seed}", "role": role, "content": [content]}
                rows.append(Row(payload, self._time, Mark()))


def _call(call: Call, seed: str) -> dict[str, Any]:
    custom = isinstance(call.input, str)
    payload: dict[str, Any] = {"type": "custom_tool_call" if custom else "function_call"}
    payload |= {"id": f"{'ctc' if custom else 'fc'} {seed}", "name": call.name, "call_id": call.id}
    if custom:
        payload["input"] = call.input
    else:
        payload["arguments"] = msgspec.json.encode(call.input).decode("utf-8")
    if isinstance(call.part.data, dict) and isinstance(call.part.data.get("namespace"), str):
        payload["namespace"] = call.part.data["namespace"]
    return payload


def _result(result: Result) -> dict[str, Any]:
    custom = isinstance(result.call.input, str)
    kind = "custom_tool_call_output" if custom else "function_call_output"
    return {"type": kind, "call_id": result.call.id, "output": result.output}


def _allow_length(row: Row) -> None:
    size = len(row.payload["output"].encode("utf-8"))
    if size > _SHORT_RESULT:
        row.metadata = {"client_authored": False, "fallback_token_limit_override": max(_LEAST_LIMIT, size)}


# ── the file ─────────────────────────────────────────────────────────────────────────────────────────


def new_thread() -> str:
    """Return a new thread id in the form that Codex uses: a UUID of version 7, which sorts by time."""
    number = time.time_ns() // 1_000_000 << 80 | int.from_bytes(os.urandom(10), "big")
    number = number & ~(0xF << 76) | 0x7 << 76
    return str(uuid.UUID(int=number & ~(0x3 << 62) | 0x2 << 62))


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
            for event in () if group.is_note else turns.after(row):
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
