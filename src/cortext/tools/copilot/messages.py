"""One event of Copilot as a message."""

from __future__ import annotations

from typing import Any

import msgspec

from cortext.model import clock
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
)
from cortext.tools.copilot import records
from cortext.tools.copilot.records import Answer, Event, ToolResult, UserMessage
from cortext.tools.shared.mark import Mark
from cortext.tools.shared.typed import is_resume_block
from cortext.tools.shared.values import word

_NAMES = ("path", "filePath", "url")  # the fields of an attachment that say where it is

MESSAGES = (records.USER_MESSAGE, records.ANSWER, records.RESULT)


def message_of(event: Event, key: str, names: dict[str, str]) -> Message | None:
    """Return the message that an event is; None if the program sent it by itself.

    `key` is the session's id, `names` the tool of each call that has no result yet.
    """
    if event.type == records.USER_MESSAGE:
        message = _prompt(msgspec.json.decode(event.data, type=UserMessage), event, key)
    elif event.type == records.ANSWER:
        message = _answer(msgspec.json.decode(event.data, type=Answer), names)
    else:
        message = _result(msgspec.json.decode(event.data, type=ToolResult), event, key, names)
    if message is not None:
        message.id = event.id
        message.timestamp = clock.normalise(event.timestamp)
        message.aside = message.aside or bool(event.agentId)
    return message


def original(event: Event, mark: Mark, key: str) -> Message | None:
    """Return the message that we made an event from; None if we added the event."""
    if mark.added:
        return None
    if (message := mark.original()) is not None:
        return message
    message = message_of(event, key, {})
    if message is not None:
        message.id, message.role = mark.id, mark.role or message.role
        message.model, message.tokens, message.usage = mark.model, mark.tokens, mark.usage
        message.aside, message.extra = False, None
    return message


def _prompt(data: UserMessage, event: Event, key: str) -> Message | None:
    if data.isAutopilotContinuation or data.source not in (None, "", "user"):
        return None
    message = Message(role=USER, content=data.content)
    if data.attachments:
        refs = (f"{key}#{event.id}/{number}" for number in range(len(data.attachments)))
        message.parts = [_attachment(item, ref) for item, ref in zip(data.attachments, refs, strict=True)]
    if is_resume_block(data.content):
        message.aside, message.extra = True, {"resume_block": True}
    return message


def _attachment(item: dict[str, Any], otherwise: str) -> Part:
    """Return an attachment as a reference: to its file or page, else to its event."""
    media_type = word(item, "mimeType")
    return Part(
        type=IMAGE if media_type.startswith("image/") else FILE,
        ref=next((found for name in _NAMES if (found := word(item, name))), otherwise),
        media_type=media_type,
        name=word(item, "displayName") or word(item, "title"),
    )


def _answer(data: Answer, names: dict[str, str]) -> Message:
    parts: list[Part] = []
    if data.reasoningText:
        parts.append(Part(THINKING, text=data.reasoningText))
    for request in data.toolRequests or ():
        parts.append(Part(TOOL_CALL, id=request.toolCallId, name=request.name, input=request.arguments))
        names[request.toolCallId] = request.name
    if parts and data.content:
        parts.insert(1 if data.reasoningText else 0, Part(TEXT, text=data.content))
    aside = bool(data.parentToolCallId)
    return Message(role=ASSISTANT, content=data.content, parts=parts or None, model=data.model or "", aside=aside)


def _result(data: ToolResult, event: Event, key: str, names: dict[str, str]) -> Message:
    output = data.result.content if data.result is not None else ""
    if data.error is not None and not output:
        output = data.error.message
    name = names.pop(data.toolCallId, "")
    parts = [
        Part(TOOL_RESULT, call_id=data.toolCallId, name=name, output=output, is_error=not data.success),
        *(
            Part(IMAGE, ref=f"{key}#{event.id}/{number}", media_type=word(item, "mimeType"))
            for number, item in enumerate((data.result and data.result.binaryResultsForLlm) or ())
        ),
    ]
    return Message(role=TOOL, parts=parts, aside=bool(data.parentToolCallId))
