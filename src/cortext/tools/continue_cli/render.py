"""The turns of a conversation as items of Continue.

Continue stores a tool's result with its call and keeps fields that it does not know. So each item, and each result in
it, is annotated with the message it was made from: `Mark` in the field `cortext`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec

from cortext.model.message import Message
from cortext.model.turns import Call, Change, Result, Turn, Turns, standalone
from cortext.tools.continue_cli.messages import result_message, spoken_message
from cortext.tools.continue_cli.records import Item
from cortext.tools.shared.mark import Mark

Json = dict[str, Any]


class Rendering:
    """The items for a sequence of messages, what had to change, and the messages that reading must return."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self.normal = Turns(messages)
        self.items: list[Json] = []
        self.expected: list[Message] = []
        self._results = self.normal.results
        # Messages with an item of their own; one with results only is restored from the first of them.
        self._placed = {id(turn.message) for turn in self.normal.turns if turn.texts or turn.calls}
        for turn in self.normal.turns:
            if turn.texts or turn.calls:
                self._add(turn)

    def _add(self, turn: Turn) -> None:
        text = "\n\n".join(block.whole for block in turn.texts)
        item: Json = {"message": {"role": turn.role, "content": text}, "contextItems": []}
        if turn.calls:
            calls = [_call(call) for call in turn.calls]
            item["message"]["toolCalls"] = calls
            item["toolCallStates"] = [self._state(self._results[call.id]) for call in turn.calls]
        decoded = msgspec.convert(item, Item)
        self._annotate(item, turn.message, spoken_message(decoded, "", ""))
        for call, record, state in zip(turn.calls, item.get("toolCallStates", ()), decoded.states or (), strict=True):
            message = self._results[call.id].message
            placed = message is None or id(message) in self._placed
            self._annotate(record, None if placed else message, result_message(state, "", ""))
            self._placed.add(id(message))
        self.items.append(item)

    def _annotate(self, record: Json, message: Message | None, literal: Message) -> None:
        """Add to a record how to restore the message it was made from; without that it is read as `literal`."""
        if message is not None:
            message = standalone(message)
            self.expected.append(message)
        record["cortext"] = msgspec.to_builtins(Mark.made_from(message, literal))

    def _state(self, result: Result) -> Json:
        failed = result.is_error and result.part is not None
        if failed:
            self.normal.note(Change.ERROR_FLAG)  # Continue shows it, but does not send it
        return {
            "toolCallId": result.call.id,
            "toolCall": _call(result.call),
            "status": "errored" if failed else "done",
            "parsedArgs": result.call.input,
            "output": [{"content": result.output, "name": "Tool Result", "description": "Tool execution result"}],
        }


def note_item(note: str) -> Json:
    """Return a message from cortext to the model."""
    mark = msgspec.to_builtins(Mark(added=True))
    return {"message": {"role": "user", "content": note}, "contextItems": [], "cortext": mark}


def _call(call: Call) -> Json:
    arguments = json.dumps(call.input, ensure_ascii=False)
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}
