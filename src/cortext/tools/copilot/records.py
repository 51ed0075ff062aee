"""The events in a session of Copilot: a line each, `{type, data, id, timestamp, parentId}`.

The package of the program contains their schema (`schemas/session-events.schema.json`). Only the fields that are read
are declared here, and each has a default.
"""

from __future__ import annotations

from typing import Any

import msgspec

from cortext.tools.shared.mark import Mark

START = "session.start"
RESUME = "session.resume"
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


def is_bookkeeping(kind: str) -> bool:
    """Whether an event is known and not part of the conversation."""
    return kind in _SKIPPED or kind.partition(".")[0] in _SKIPPED_FAMILIES


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
    """A prompt. `content` is as typed; `source` names what sent it instead of the user: `skill-pdf`, `agent-ID`."""

    content: str = ""
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
