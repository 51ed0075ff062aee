"""Continue's sessions as it stores them: one JSON document each, with only the fields that we need.

Continue writes a document again after every step, indented, and not atomically: a process that is killed may leave the
beginning of one. The items of such a document are found by their indentation.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote

import msgspec

from cortext.io import durable
from cortext.tools.base import Counts
from cortext.tools.continue_cli.session_list import LIST
from cortext.tools.shared.lines import note, place, value_of
from cortext.tools.shared.mark import Mark

_LARGEST = 1 << 30
_HEAD = 1 << 16
_HISTORY = b'"history"'


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
_DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)


def head_of(path: str) -> Head | None:
    """Return what the beginning of a document says; None if the file is not a session of Continue."""
    try:
        with open(path, "rb", opener=durable.plain_file) as file:
            block = file.read(_HEAD)
    except OSError:
        return None
    before, found, _ = block.partition(_HISTORY)
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


def session_files(folder: str) -> list[str]:
    """Return the paths of the sessions in a folder, without Continue's list of them."""
    try:
        names = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [os.path.join(folder, name) for name in names if name.endswith(".json") and name != LIST]
