"""Renders the turns of a conversation as the items of a Codex rollout.

How Codex treats them: a call with a text instead of arguments is that of a custom tool; a result has no error flag; a
long result is shortened when it is loaded, unless the record sets a higher limit. Each item has a field of our own, so
that reading gives back the original messages.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

import msgspec

from cortext.model import clock
from cortext.model.message import ASSISTANT, TOOL, USER, Message
from cortext.model.turns import Block, Call, Change, Image, Result, Text, Turn, Turns, standalone
from cortext.tools.base import About, Counts
from cortext.tools.codex.builder import MessageBuilder
from cortext.tools.codex.mark import Mark

_NAMESPACE = uuid.UUID("5c1f0e0a-6d6b-5d0f-9c57-3c1a4b7f2e11")
_SHORT_RESULT = 4_000  # bytes; up to this size a result needs no limit of its own
_LEAST_LIMIT = 3_000  # tokens


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
    """The items of one message; `message` is None if they were added."""

    message: Message | None
    rows: list[Row]


class Rendering:
    """The items for a sequence of messages; `normal` counts what had to change."""

    def __init__(self, messages: Sequence[Message], note: str = "") -> None:
        self.normal = Turns(messages, words_as_input=True, images_in=(USER, TOOL))
        self._time = ""
        self.groups = [self._group(number, turn) for number, turn in enumerate(self.normal.turns)]
        if note:
            self.groups.append(self._group(len(self.groups), Turn(USER, [Text(note)], None)))
            self.groups[-1].rows[0].timestamp = clock.now()

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
                self.normal.note(Change.ERROR_FLAG)
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
