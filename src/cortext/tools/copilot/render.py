"""The turns of a conversation as events of Copilot.

A turn of the user is a `user.message`, one of the model an `assistant.message` with its calls, and each result a
`tool.execution_complete`. Copilot sends them as they are, and keeps the field `cortext`, which says how to restore the
messages.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from cortext.model import clock
from cortext.model.message import ASSISTANT, USER, Message
from cortext.model.turns import Change, Result, Text, Turn, Turns, standalone
from cortext.tools.copilot import records
from cortext.tools.copilot.messages import original
from cortext.tools.copilot.records import Event, decoder
from cortext.tools.shared.mark import Mark

Json = dict[str, Any]

_EMPTY_ERROR = "[The call failed without a message.]"


class Rendering:
    """The events for a sequence of messages, what had to change, and the messages that reading must return."""

    def __init__(self, messages: Sequence[Message], note: str = "") -> None:
        self.normal = Turns(messages)
        self._time = ""
        self.events: list[Json] = []
        self.expected: list[Message] = []
        for turn in self.normal.turns:
            self._add(turn)
        if note:
            self._time = clock.now()
            self._add(Turn(USER, [Text(note)], None))

    def _add(self, turn: Turn) -> None:
        message = standalone(turn.message) if turn.message is not None else None
        self._time = (clock.normalise(message.timestamp) if message else "") or self._time or clock.now()
        events = [self._event(kind, data) for kind, data in self._fields(turn)]
        marked = [event for event in events if event["type"] != records.CALL_STARTED]
        for event in marked:
            event["cortext"] = Mark(added=True)
        if message is not None:
            first = marked[0]
            first["cortext"] = mark = Mark(
                id=message.id,
                role=message.role if message.role != turn.role else "",
                model=message.model,
                tokens=message.tokens,
                usage=message.usage,
            )
            if len(marked) > 1 or not _is_read_as(first, message):
                first["cortext"] = Mark(id=mark.id, was=msgspec.to_builtins(message))
            self.expected.append(message)
        self.events += events

    def _fields(self, turn: Turn) -> Iterator[tuple[str, Json]]:
        """Yield the type and the data of each event of a turn."""
        text = "\n\n".join(text.whole for text in turn.texts)
        if turn.role == ASSISTANT:
            calls = turn.calls
            data: Json = {"messageId": str(uuid.uuid4()), "content": text}
            if calls:
                data["toolRequests"] = [
                    {"toolCallId": call.id, "name": call.name, "arguments": call.input, "type": "function"}
                    for call in calls
                ]
            yield records.ANSWER, data
            for call in calls:
                yield (
                    records.CALL_STARTED,
                    {"toolCallId": call.id, "toolName": call.name, "arguments": call.input},
                )
            return
        for result in turn.results:
            yield records.RESULT, self._outcome(result)
        if text:
            yield records.USER_MESSAGE, {"content": text}

    def _outcome(self, result: Result) -> Json:
        data: Json = {"toolCallId": result.call.id, "success": not result.is_error}
        if not result.is_error:
            return {**data, "result": {"content": result.output}}
        if not result.output:
            self.normal.note(Change.ERROR_NAMED)
        return {**data, "error": {"message": result.output or _EMPTY_ERROR}}

    def _event(self, kind: str, data: Json) -> Json:
        return {"type": kind, "data": data, "id": str(uuid.uuid4()), "timestamp": self._time, "parentId": None}


def _is_read_as(event: Json, message: Message) -> bool:
    """Whether reading an event returns the message, so that its mark need not contain it."""
    read: Event = decoder.decode(msgspec.json.encode(event))
    return read.cortext is not None and original(read, read.cortext, "") == message
