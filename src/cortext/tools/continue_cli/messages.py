"""Continue's sessions as it stores them, one JSON document each with only the fields that we need, and its messages.

Continue writes a document again after every step, indented, and not atomically: a process that is killed may leave the
beginning of one. The items of such a document are found by their indentation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

import msgspec

from cortext.io import durable
from cortext.model.message import (
    ASSISTANT,
    FILE,
    IMAGE,
    TEXT,
    THINKING,
    TOOL,
    TOOL_CALL,
    TOOL_RESULT,
    USER,
    Message,
    Part,
    joined_text,
)
from cortext.safety.framing import BEGIN
from cortext.tools.base import Counts
from cortext.tools.shared.folders import beginning
from cortext.tools.shared.lines import derived_id, note, place, value_of
from cortext.tools.shared.native import Mark

_LARGEST = 1 << 30
_HEAD = 1 << 16
_HISTORY = b'"history"'
_DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_MEDIA_TYPE = re.compile(r"data:([\w.+-]+/[\w.+-]+)")
_FAILED = ("errored", "canceled")


# ── records ──────────────────────────────────────────────────────────────────────────────────────────


class Function(msgspec.Struct):
    name: str = ""
    arguments: Any = ""  # JSON in a string


class ToolCall(msgspec.Struct):
    id: str = ""
    function: Function = msgspec.field(default_factory=Function)


class Output(msgspec.Struct):
    content: str = ""


class State(msgspec.Struct):
    """A tool call and what became of it. `status`: generated, calling, done, errored or canceled."""

    id: str = msgspec.field(default="", name="toolCallId")
    call: ToolCall | None = msgspec.field(default=None, name="toolCall")
    status: str = ""
    output: list[Output] | None = None
    cortext: Mark | None = None

    @property
    def text(self) -> str:
        """The result as Continue sends it to the model."""
        return "\n".join(output.content for output in self.output or ())

    @property
    def is_finished(self) -> bool:
        return bool(self.output) or self.status in ("done", "errored", "canceled")


class ImageUrl(msgspec.Struct):
    url: str = ""


class ContentPart(msgspec.Struct):
    type: str = ""
    text: str = ""
    image: ImageUrl | None = msgspec.field(default=None, name="imageUrl")


class Usage(msgspec.Struct):
    model: str = ""
    output: int | None = msgspec.field(default=None, name="completion_tokens")


class MessageRecord(msgspec.Struct):
    role: str = ""
    content: str | list[ContentPart] | None = None
    calls: list[ToolCall] | None = msgspec.field(default=None, name="toolCalls")
    call_id: str = msgspec.field(default="", name="toolCallId")
    usage: dict[str, Any] | None = None


class ContextItem(msgspec.Struct):
    """A file that the user attached; Continue sends its content before the message."""

    name: str = ""
    description: str = ""
    content: str = ""


class Item(msgspec.Struct):
    """One message, with the results of its tool calls. `summary` replaces the messages before it."""

    message: MessageRecord = msgspec.field(default_factory=MessageRecord)
    context: list[ContextItem] | None = msgspec.field(default=None, name="contextItems")
    states: list[State] | None = msgspec.field(default=None, name="toolCallStates")
    summary: str | None = msgspec.field(default=None, name="conversationSummary")
    cortext: Mark | None = None


class Head(msgspec.Struct):
    """What a document says about its session."""

    key: str = msgspec.field(name="sessionId")
    title: str = ""
    folder: str = msgspec.field(default="", name="workspaceDirectory")

    @property
    def project(self) -> str:
        """The folder of the session, which the editor extension stores as a URL."""
        return unquote(self.folder.removeprefix("file://")) if self.folder.startswith("file://") else self.folder


class _Document(msgspec.Struct):
    history: list[msgspec.Raw]


class _Whole(Head):
    history: msgspec.Raw = msgspec.Raw(b"")


_head = msgspec.json.Decoder(Head)
_whole = msgspec.json.Decoder(_Whole)
_document = msgspec.json.Decoder(_Document)
_item = msgspec.json.Decoder(Item)


def head_of(path: str) -> Head | None:
    """Return what the beginning of a document says; None if the file is not a session of Continue."""
    before, found, _ = beginning(path, _HEAD).partition(_HISTORY)
    if not before.lstrip().startswith(b"{"):
        return None
    try:
        if found:
            return _head.decode(before.rstrip().removesuffix(b",") + b"}")
        whole = _whole.decode(durable.read_file(path, _LARGEST))  # the fields may be in another order
        return whole if memoryview(whole.history) else None
    except (*_DECODE_ERRORS, OSError):
        return None


def items_of(path: str, counts: Counts) -> Iterator[Item]:
    """Yield the items of a document; those that cannot be read are counted."""
    data = durable.read_file(path, _LARGEST)
    for number, raw in enumerate(_raw_items(data, path, counts)):
        try:
            yield _item.decode(raw)
            continue
        except _DECODE_ERRORS:
            value = value_of(memoryview(raw))
        try:
            yield msgspec.convert(value, Item)
        except (msgspec.ValidationError, RecursionError):
            note(counts.damaged, "unexpected shape")
            place(counts, f"{path}#{number}", 0)


def _raw_items(data: bytes, path: str, counts: Counts) -> list[msgspec.Raw]:
    try:
        return _document.decode(data).history
    except _DECODE_ERRORS:
        value = value_of(data)  # half a surrogate pair is not valid for the decoder
    if isinstance(value, dict) and isinstance(value.get("history"), list):
        return [msgspec.Raw(msgspec.json.encode(item)) for item in value["history"]]
    note(counts.damaged, "incomplete document")
    place(counts, path, len(data))
    return list(_salvaged(data))


def _salvaged(data: bytes) -> Iterator[msgspec.Raw]:
    """Yield the complete items of a damaged document. Strings contain no line breaks, so indentation is reliable."""
    block: list[bytes] | None = None
    for line in data.partition(_HISTORY)[2].splitlines():
        if line == b"    {":
            block = []
        elif line in (b"    }", b"    },") and block is not None:
            yield msgspec.Raw(b"{" + b"\n".join(block) + b"}")
            block = None
        elif block is not None:
            block.append(line)


# ── messages ─────────────────────────────────────────────────────────────────────────────────────────


def identity(item: Item, before: str) -> str:
    """Return an id for an item, which has none: it depends on everything up to it, so it shows a rewritten history."""
    calls = [call.id for call in item.message.calls or ()]
    return derived_id(before, item.message.role, _text(item), *calls)


def messages_of(item: Item, name: str, timestamp: str, damaged: dict[str, int]) -> list[Message]:
    """Return the message of an item and the results of its calls; none for what we added."""
    read = [(item.cortext, spoken_message(item, name, timestamp))]
    read += [(state.cortext, result_message(state, name, timestamp)) for state in item.states or () if state.output]
    return [
        message if mark is None else mark.restored(message, damaged)
        for mark, message in read
        if mark is None or not mark.added
    ]


def spoken_message(item: Item, name: str, timestamp: str) -> Message:
    """Return what an item says, without the results of its calls and without our annotation."""
    record = item.message
    message = Message(role=record.role, id=name, timestamp=timestamp)
    if record.role == "thinking":
        message.role, message.parts = ASSISTANT, [Part(THINKING, text=_text(item))]
        return message
    if record.role == TOOL:  # as older versions store a result
        message.parts = [Part(TOOL_RESULT, call_id=record.call_id, output=_text(item))]
        return message
    parts = _content_parts(item, name)
    if record.role == USER and item.cortext is None and BEGIN in _text(item):
        message.extra = {"resume_block": True}
    if record.role == ASSISTANT:
        parts += [_call_part(call) for call in _calls(item)]
        if record.usage is not None:
            usage = msgspec.convert(record.usage, Usage)
            message.usage, message.tokens, message.model = record.usage, usage.output, usage.model
    message.content = joined_text(parts)
    if any(part.type != TEXT for part in parts) or len(parts) > 1:
        message.parts = parts
    return message


def _content_parts(item: Item, name: str) -> list[Part]:
    parts = [
        Part(FILE, name=context.name, ref=context.description, text=context.content) for context in item.context or ()
    ]
    content = item.message.content
    if isinstance(content, str):
        return [*parts, Part(TEXT, text=content)] if content else parts
    for number, part in enumerate(content or ()):
        if part.image is not None:
            found = _MEDIA_TYPE.match(part.image.url)
            ref = f"{name}/{number}" if found else part.image.url
            parts.append(Part(IMAGE, ref=ref, media_type=found[1] if found else ""))
        elif part.text:
            parts.append(Part(TEXT, text=part.text))
    return parts


def _text(item: Item) -> str:
    content = item.message.content
    return content if isinstance(content, str) else "\n\n".join(part.text for part in content or () if part.text)


def _calls(item: Item) -> list[ToolCall]:
    return item.message.calls or [state.call for state in item.states or () if state.call is not None]


def _call_part(call: ToolCall) -> Part:
    arguments: Any = call.function.arguments
    try:
        arguments = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, TypeError, UnicodeEncodeError, RecursionError):
        pass  # the model's text as it is
    return Part(TOOL_CALL, id=call.id, name=call.function.name, input=arguments)


def result_message(state: State, name: str, timestamp: str) -> Message:
    """Return the result of a call, without our annotation."""
    tool = state.call.function.name if state.call is not None else ""
    failed = state.status in _FAILED
    part = Part(TOOL_RESULT, call_id=state.id, name=tool, output=state.text, is_error=failed)
    return Message(role=TOOL, id=derived_id(name, state.id), timestamp=timestamp, parts=[part])
