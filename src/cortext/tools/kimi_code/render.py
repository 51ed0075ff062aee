"""The turns of a conversation as records of Kimi Code, each annotated with the message it was made from.

Kimi Code only appends to its log, and ignores the field `cortext` of a record.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec

from cortext.model.message import TOOL, USER, Message
from cortext.model.turns import Result, Turn, Turns, standalone
from cortext.tools.kimi_code.messages import literal_message
from cortext.tools.kimi_code.records import MESSAGE, Record
from cortext.tools.shared.mark import Mark

Json = dict[str, Any]


class Rendering:
    """The records for a sequence of messages, what had to change, and the messages that reading must return."""

    def __init__(self, messages: Sequence[Message], now: int) -> None:
        self.normal = Turns(messages)
        self.records: list[Json] = []
        self.expected: list[Message] = []
        self._now = now
        # Messages with a record of their own; one with results only is restored from the first of them.
        self._placed = {id(turn.message) for turn in self.normal.turns if turn.texts or turn.calls}
        for turn in self.normal.turns:
            for result in turn.results:
                self._add_result(result)
            if turn.texts or turn.calls:
                self._add_turn(turn)

    def _add_turn(self, turn: Turn) -> None:
        said = spoken(turn.role, "\n\n".join(text.whole for text in turn.texts))
        said["toolCalls"] = [
            {
                "type": "function",
                "id": call.id,
                "name": call.name,
                "arguments": json.dumps(call.input, ensure_ascii=False),
            }
            for call in turn.calls
        ]
        self._add(said, turn.message)

    def _add_result(self, result: Result) -> None:
        said = {**spoken(TOOL, result.output), "toolCallId": result.call.id}
        if result.is_error and result.part is not None:
            said["isError"] = True
        message = result.message
        self._add(said, None if message is None or id(message) in self._placed else message)
        self._placed.add(id(message))

    def _add(self, said: Json, message: Message | None) -> None:
        record: Json = {"type": MESSAGE, "agentId": "main", "message": said, "time": self._now}
        if message is not None:
            message = standalone(message)
            self.expected.append(message)
        mark = Mark.made_from(message, literal_message(msgspec.convert(record, Record), ""))
        self.records.append({**record, "cortext": msgspec.to_builtins(mark)})


def note_record(note: str, now: int) -> Json:
    """Return a message from cortext to the model."""
    mark = msgspec.to_builtins(Mark(added=True))
    return {"type": MESSAGE, "agentId": "main", "message": spoken(USER, note), "time": now, "cortext": mark}


def spoken(role: str, text: str) -> Json:
    """Return a message as Kimi Code stores it."""
    said: Json = {"role": role, "content": [{"type": "text", "text": text}] if text else [], "toolCalls": []}
    return {**said, "origin": {"kind": "user"}} if role == USER else said
