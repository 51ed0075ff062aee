"""The records of a Claude Code transcript: which kinds there are, and the fields of each that we need.

Typed decoding skips everything else (second copies of a tool result, base64 images) without building it.
"""

from __future__ import annotations

from typing import Any

import msgspec

from cortext.tools.shared.inline_images import nth, values_of
from cortext.tools.shared.mark import Mark

# Kinds of records that are Claude Code's own bookkeeping: known, and not part of the conversation.
_BOOKKEEPING = """
    agent-color agent-name agent-setting api-request api-request-blob api-request-shape artifact-autoreact-ledger
    artifact-comment-monitor atis-latch attribution-snapshot bridge-session content-replacement continued-in
    cost-state data-flow-incomplete data-flow-records derived-from dev-mods ended-by-model file-history-delta
    file-history-snapshot fork-context-ref frame-link history-suppression isolation-latch last-prompt memory-mode
    mode observer-ref permission-mode pr-link progress queue-operation relocated repl-mode resume-head-vouch
    session-owner speculation-accept tag task-summary tools-used worktree-state
"""
BOOKKEEPING = frozenset(_BOOKKEEPING.split())
# Kinds that hold a title, the most authoritative last.
TITLES = ("summary", "ai-title", "custom-title")
KNOWN = frozenset((*BOOKKEEPING, *TITLES, "attachment", "system"))
MESSAGE_TYPES = frozenset(("user", "assistant"))
_SYSTEM_NOTES = """
    agents_killed api_error api_metrics api_retry away_summary bridge_state bridge_status compact_boundary
    file_snapshot hook_progress hook_response hook_started informational init instruction_size_warning
    memory_recall memory_saved microcompact_boundary model_consent_fallback model_fallback model_refusal_fallback
    model_refusal_no_fallback notification per_turn_effort_changed permission_denied permission_retry
    post_turn_summary rewind_stand_in scheduled_task_fire session_writes_lost start_folder status stop_hook_summary
    task_notification task_progress task_started task_summary task_updated thinking thinking_tokens turn_duration
    turn_handoff_available turn_preempted voice_call_talk
"""
# Attachments that the user gave the model to read; all others are Claude Code's own notes to the model.
ATTACHED = frozenset(("file", "already_read_file", "directory", "selected_lines_in_ide", "mcp_resource"))
# Attachments that the model does not get.
UNSENT = frozenset(("command_permissions", "prompt_snapshot", "session_context"))
SYSTEM_NOTES = frozenset(_SYSTEM_NOTES.split())
SYNTHETIC = "<synthetic>"  # the "model" of assistant records that Claude Code itself made up


class Source(msgspec.Struct, gc=False):
    """Where an image comes from. `data` is not a field, so that its base64 is never decoded."""

    type: str | None = None
    media_type: str | None = None
    url: str | None = None
    file_id: str | None = None


class Block(msgspec.Struct, gc=False):
    """One block of a message's content, of any kind."""

    type: str = ""
    text: str | None = None
    thinking: str | None = None
    id: str | None = None
    name: str | None = None
    input: Any = None
    tool_use_id: str | None = None
    content: str | list[Block | str] | dict[str, Any] | None = None
    is_error: bool | None = None
    source: Source | None = None
    title: str | None = None
    tool_name: str | None = None


class Body(msgspec.Struct, gc=False):
    """The `message` of a user or assistant record."""

    content: str | list[Block | str] | None = None
    id: str | None = None
    model: str | None = None
    usage: dict[str, Any] | None = None


class Attachment(msgspec.Struct, gc=False):
    """An attachment to the conversation.

    `queued_command` is what the user typed while the model was working. The types in ATTACHED are what the user gave
    the model to read with a prompt (`@note.txt`); their content has a form of its own and is decoded separately.
    """

    type: str | None = None
    prompt: str | list[Block | str] | None = None
    commandMode: str | None = None
    filename: str | None = None
    displayPath: str | None = None
    path: str | None = None
    uri: str | None = None
    content: msgspec.Raw = msgspec.Raw(b"null")


class AttachedFile(msgspec.Struct, gc=False):
    """The file in an attachment. Its base64 is not a field, so that it is never decoded."""

    content: str | None = None
    type: str | None = None
    cells: Any = None


class AttachedText(msgspec.Struct, gc=False):
    """One content item of an MCP resource."""

    text: str | None = None


class Attached(msgspec.Struct, gc=False):
    """The content of an attachment: a file (text, notebook, image or PDF), or the contents of an MCP resource."""

    type: str | None = None
    file: AttachedFile | None = None
    contents: list[AttachedText] | None = None


class Origin(msgspec.Struct, gc=False):
    """Who wrote a record of role user, if it was not the user."""

    kind: str | None = None


class Record(msgspec.Struct, gc=False):
    """A line of a transcript, of any kind: the fields that we need."""

    type: str = ""
    uuid: str | None = None
    parentUuid: str | None = None
    logicalParentUuid: str | None = None
    timestamp: str | None = None
    requestId: str | None = None
    sessionId: str | None = None
    cwd: str | None = None
    isSidechain: bool | None = None
    isMeta: bool | None = None
    sourceToolUseID: str | None = None  # the call of a skill that this record has the instructions of
    isCompactSummary: bool | None = None
    isVisibleInTranscriptOnly: bool | None = None
    isApiErrorMessage: bool | None = None
    message: Body | None = None
    attachment: Attachment | None = None
    origin: Origin | None = None
    subtype: str | None = None
    content: str | list[Block | str] | dict[str, Any] | None = None
    summary: str | None = None
    leafUuid: str | None = None
    customTitle: str | None = None
    aiTitle: str | None = None
    cortext: Mark | None = None


decoder = msgspec.json.Decoder(Record)
attached_decoder = msgspec.json.Decoder(str | Attached | None)


def image_in(record: dict[str, Any], rest: list[str]) -> str | None:
    """Return the base64 of an image in a record, by its number among the images and documents there."""
    message, attachment = record.get("message"), record.get("attachment")
    inside = [message.get("content") if isinstance(message, dict) else None]
    if isinstance(attachment, dict):
        files = [str(file["base64"]) for file in values_of(attachment.get("content"), "base64")]
        if files:
            return nth(iter(files), rest[0])
        inside.append(attachment.get("prompt"))
    blocks = (block for block in values_of(inside, "source") if isinstance(block["source"], dict))
    return nth((str(block["source"].get("data") or "") for block in blocks), rest[0])
