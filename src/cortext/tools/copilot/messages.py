"""The events in a session of GitHub Copilot CLI, `{type, data, id, timestamp, parentId}`, and the message that each is.

The package of the program contains their schema (`schemas/session-events.schema.json`). Only the fields that are read
are declared here, and each has a default.
"""

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
from cortext.tools.shared.commands import is_resume_block
from cortext.tools.shared.native import Mark
from cortext.tools.shared.values import word

START = "session.start"
MODEL = "session.model_change"
USAGE = "session.usage_record"
COMPACTED = "session.compaction_complete"
CLEARED = "session.context_cleared"
TRUNCATED = "session.truncation"
USER_MESSAGE = "user.message"
ANSWER = "assistant.message"
CALL_STARTED = "tool.execution_start"
RESULT = "tool.execution_complete"
# What the program records about its own work: these events, and all events of these families.
_EVENTS = """
    abort agent.interrupted assistant.idle assistant.intent assistant.message_delta assistant.message_start
    assistant.reasoning assistant.reasoning_delta assistant.server_tool_progress assistant.streaming_delta
    assistant.tool_call_delta assistant.turn_end assistant.turn_retry assistant.turn_start assistant.usage
    assistant.fusion_phase_activity assistant.fusion_phase_completed assistant.fusion_phase_failed
    assistant.fusion_phase_started prompt_cache_break system.message system.notification tool.execution_start
    tool.execution_partial_result tool.execution_progress tool.shell_output tool.user_requested
"""
_FAMILIES = """
    auto_mode_switch capabilities command commands elicitation exit_plan_mode external_tool hook human_response mcp
    mcp_app model pending_messages permission sampling sandbox session session_limits_exhausted skill subagent
    tool_search ui user_input workflow
"""
_SKIPPED = frozenset(_EVENTS.split())
_SKIPPED_FAMILIES = frozenset(_FAMILIES.split())
MESSAGES = (USER_MESSAGE, ANSWER, RESULT)
_WHERE = ("path", "filePath", "url")  # the fields of an attachment that say where it is


class Event(msgspec.Struct):
    """A line of the file. `agentId` is set on the events of a subagent, `cortext` on those that we wrote."""

    type: str = ""
    data: msgspec.Raw = msgspec.Raw(b"{}")
    id: str = ""
    timestamp: str = ""
    agentId: str = ""
    cortext: Mark | None = None


class Context(msgspec.Struct):
    """Where a session is held."""

    cwd: str = ""


class Start(msgspec.Struct):
    """The beginning of a session."""

    sessionId: str = ""
    startTime: str = ""
    selectedModel: str | None = None
    context: Context | None = None


class ModelChange(msgspec.Struct):
    """The choice of another model."""

    newModel: str = ""


class Usage(msgspec.Struct):
    """The tokens of one request to the model; the answer with the same `apiCallId` follows."""

    usage: dict[str, Any] = {}


class Compaction(msgspec.Struct):
    """The end of a compaction."""

    success: bool = False
    summaryContent: str | None = None


class UserMessage(msgspec.Struct):
    """A prompt. `content` is as typed; `source` names what sent it instead of the user: `skill-pdf`, `agent-ID`.

    `transformedContent` is what the model got: the program adds the time.
    """

    content: str = ""
    transformedContent: str | None = None
    source: str | None = None
    isAutopilotContinuation: bool = False
    attachments: list[dict[str, Any]] | None = None


class ToolRequest(msgspec.Struct):
    """A tool call."""

    toolCallId: str = ""
    name: str = ""
    arguments: Any = None


class Answer(msgspec.Struct):
    """A message of the model."""

    content: str = ""
    model: str | None = None
    reasoningText: str | None = None
    toolRequests: list[ToolRequest] | None = None
    apiCallId: str | None = None
    parentToolCallId: str | None = None


class CallStarted(msgspec.Struct):
    """The start of a tool call."""

    toolCallId: str = ""
    toolName: str = ""


class Failure(msgspec.Struct):
    """Why a call failed."""

    message: str = ""


class Outcome(msgspec.Struct):
    """What a call returned. `binaryResultsForLlm` are the images in it."""

    content: str = ""
    binaryResultsForLlm: list[dict[str, Any]] | None = None


class ToolResult(msgspec.Struct):
    """The end of a tool call."""

    toolCallId: str = ""
    success: bool = True
    result: Outcome | None = None
    error: Failure | None = None
    parentToolCallId: str | None = None


decoder = msgspec.json.Decoder(Event)


def is_bookkeeping(kind: str) -> bool:
    """Whether an event is known and not part of the conversation."""
    return kind in _SKIPPED or kind.partition(".")[0] in _SKIPPED_FAMILIES


def message_of(event: Event, key: str, names: dict[str, str]) -> Message | None:
    """Return the message that an event is; None if the program sent it by itself.

    `key` is the session's id, `names` the tool of each call that has no result yet.
    """
    if event.type == USER_MESSAGE:
        message = _prompt(msgspec.json.decode(event.data, type=UserMessage), event, key)
    elif event.type == ANSWER:
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
        ref=next((found for name in _WHERE if (found := word(item, name))), otherwise),
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
