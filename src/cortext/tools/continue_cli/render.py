"""The turns of a conversation as items of Continue.

Continue stores a tool's result with its call and keeps fields that it does not know. So each item, and each result in
it, is annotated with the message it was made from: `Mark` in the field `cortext`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import msgspec

from cortext.model.message import TOOL, Message
from cortext.model.turns import Call, Change, Result, Turn, Turns, standalone
from cortext.tools.continue_cli.messages import messages_of
from cortext.tools.continue_cli.records import Item
from cortext.tools.shared.mark import Mark
from cortext.tools.shared.verify import same_message

Json = dict[str, Any]
_ADDED = msgspec.to_builtins(Mark(added=True))


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
        self._annotate(item, item, turn.message, turn.role)
        for call, state in zip(turn.calls, item.get("toolCallStates", ()), strict=True):
            message = self._results[call.id].message
            placed = message is None or id(message) in self._placed
            self._annotate(item, state, None if placed else message, TOOL)
            self._placed.add(id(message))
        self.items.append(item)

    def _annotate(self, item: Json, record: Json, message: Message | None, role: str) -> None:
        """Add to a record (the item, or a state in it) how to restore the message it was made from."""
        if message is None:
            record["cortext"] = _ADDED
            return
        message = standalone(message)
        mark = Mark(
            id=message.id,
            role=message.role if message.role != role else "",
            timestamp=message.timestamp,
            model=message.model,
            tokens=message.tokens,
            usage=message.usage,
        )
        record["cortext"] = msgspec.to_builtins(mark)
        if not _is_read_as(item, record, message):
            mark.was = msgspec.to_builtins(message)
            record["cortext"] = msgspec.to_builtins(mark)
        self.expected.append(message)

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
    return {"message": {"role": "user", "content": note}, "contextItems": [], "cortext": _ADDED}


def _call(call: Call) -> Json:
    arguments = json.dumps(call.input, ensure_ascii=False)
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _is_read_as(item: Json, record: Json, message: Message) -> bool:
    """Whether reading the record returns the message, so that the annotation need not contain it."""
    states = [{**record}] if record is not item else []
    alone = {**item, "toolCallStates": states, "cortext": _ADDED if states else item["cortext"]}
    found = messages_of(msgspec.convert(alone, Item), message.id, message.timestamp)
    return len(found) == 1 and same_message(message, found[0])
