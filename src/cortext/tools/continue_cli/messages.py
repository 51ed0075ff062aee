"""Convert Continue's items to our messages, and back to the original ones where our annotation says how."""

from __future__ import annotations

import re
from typing import Any

import msgspec

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
from cortext.tools.continue_cli.records import Item, State, ToolCall, Usage
from cortext.tools.shared.lines import derived_id

_MEDIA_TYPE = re.compile(r"data:([\w.+-]+/[\w.+-]+)")
_FAILED = ("errored", "canceled")


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
