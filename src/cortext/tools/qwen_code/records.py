"""The records of a Qwen Code session: which kinds there are, and the fields of each that we need."""

from __future__ import annotations

from typing import Any

import msgspec

from cortext.tools.shared.google_parts import Content
from cortext.tools.shared.mark import RunMark

# Kinds of system records that are Qwen Code's own bookkeeping: known, and not part of the conversation.
_BOOKKEEPING = """
    agent_bootstrap agent_launch_prompt agent_retry agent_session_ready at_command attribution_snapshot
    background_task_completed branch_checkpoint file_history_snapshot goal_state goal_turn_end managed_session_commit_v1
    managed_session_event_v1 managed_session_header_v1 omni_recall parent_session rewind session_artifact_event
    session_artifact_snapshot session_model session_source session_sources_snapshot slash_command turn_result
    ui_telemetry user_text_elements
"""
BOOKKEEPING = frozenset(_BOOKKEEPING.split())
TITLE, COMPACTION = "custom_title", "chat_compression"
# User records that Qwen Code wrote for itself, as a prompt of its own.
INJECTED = frozenset(("notification", "cron", "goal_runtime"))
# What was said in a voice call: Qwen Code does not send it to the model again.
SPOKEN = "realtime_message"
USER, ASSISTANT, TOOL_RESULT, SYSTEM = "user", "assistant", "tool_result", "system"
MESSAGE_TYPES = frozenset((USER, ASSISTANT, TOOL_RESULT))


class Body(msgspec.Struct, gc=False):
    """The `message` of a record."""

    role: str | None = None
    parts: Content = None


class CallStatus(msgspec.Struct, gc=False):
    """What became of a tool call."""

    status: str | None = None


class Payload(msgspec.Struct, gc=False):
    """What a system record says, or what a user record says about the prompt."""

    displayText: str | None = None
    hookContext: str | None = None
    customTitle: str | None = None
    compressedHistory: list[Body] | None = None


class Record(msgspec.Struct, gc=False):
    """A line of a session: the fields that we need. `parentUuid` is null at the root, and empty if it is missing."""

    type: str = ""
    subtype: str | None = None
    uuid: str = ""
    parentUuid: str | None = ""
    sessionId: str | None = None
    timestamp: str | None = None
    cwd: str | None = None
    model: str | None = None
    message: Body | None = None
    usageMetadata: dict[str, Any] | None = None
    toolCallResult: CallStatus | None = None
    systemPayload: msgspec.Raw = msgspec.Raw(b"null")
    cortext: RunMark | None = None


decoder = msgspec.json.Decoder(Record)
_payload_decoder = msgspec.json.Decoder(Payload | None)


def payload_of(record: Record) -> Payload:
    """Return the payload of a record."""
    return _payload_decoder.decode(record.systemPayload) or Payload()
