"""The records of a Codex rollout: which kinds there are, and the fields of them that we need.

A line is `{"timestamp", "ordinal", "type", "payload"}`. What kind it is can be told from its first bytes, so
that most lines are never parsed; typed decoding passes over what is not needed (images, instructions).
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from cortext.tools.codex.mark import Mark
from cortext.tools.shared.lines import value_of

# How a line begins, as the program writes it.
BEGIN = b'{"timestamp":"'
_BEGIN = re.compile(rb'\{"timestamp": ?"')
LOOK = 120  # the kind of a record stands within so many bytes
KIND = b',"type":"'
ITEM = b'response_item","payload":{"type":"'
EVENT = b'event_msg","payload":{"type":"'
_ORDINAL = re.compile(rb'"ordinal": ?(\d+)')

# Kinds of records, and of events, that are the tool's own bookkeeping: known, and not part of the talk.
_BOOKKEEPING = """
    session_meta turn_context world_state token_usage_record compacted
    inter_agent_communication inter_agent_communication_metadata
"""
_EVENTS = """
    agent_message agent_message_content_delta agent_reasoning agent_reasoning_raw_content
    agent_reasoning_section_break apply_patch_approval_request background_event collab_agent_interaction_begin
    collab_agent_interaction_end collab_agent_spawn_begin collab_agent_spawn_end collab_close_begin
    collab_close_end collab_resume_begin collab_resume_end collab_waiting_begin collab_waiting_end
    context_compacted deprecation_notice dynamic_tool_call_request dynamic_tool_call_response
    elicitation_request entered_review_mode environment_connected environment_disconnected error
    exec_approval_request exec_command_begin exec_command_end exec_command_output_delta exited_review_mode
    guardian_assessment guardian_warning hook_completed hook_started image_generation_begin
    image_generation_end item_completed item_started mcp_startup_complete mcp_startup_update
    mcp_tool_call_begin mcp_tool_call_end model_reroute model_verification patch_apply_begin patch_apply_end
    patch_apply_updated plan_delta plan_update raw_response_completed raw_response_item
    realtime_conversation_closed realtime_conversation_realtime realtime_conversation_sdp
    realtime_conversation_started reasoning_content_delta reasoning_raw_content_delta request_permissions
    request_user_input safety_buffering session_configured shutdown_complete stream_error sub_agent_activity
    task_complete task_started terminal_interaction thread_goal_updated thread_name_updated
    thread_queue_changed thread_rolled_back thread_settings_applied token_count turn_aborted turn_complete
    turn_diff turn_moderation_metadata turn_started undo_completed undo_started user_message
    view_image_tool_call warning web_search_begin web_search_end
"""
BOOKKEEPING = frozenset(_BOOKKEEPING.split())
EVENTS = frozenset(_EVENTS.split())
# What to call them when they are counted; the few that tell us something are not passed over, and those
# that end an answer are not while one is open.
_TELLING = {"turn_context", "token_usage_record", "compacted"}
_TELLING_EVENTS = {"thread_rolled_back", "thread_name_updated"}
ENDING_EVENTS = frozenset((b"token_count", b"task_complete", b"turn_aborted"))
PASSED_OVER = {name.encode(): name for name in BOOKKEEPING - _TELLING}
PASSED_OVER_EVENTS = {name.encode(): f"event {name}" for name in EVENTS - _TELLING_EVENTS}
# Items of a model's history that are neither words nor calls.
QUIET_ITEMS = frozenset(
    (
        "additional_tools",
        "compaction",
        "compaction_summary",
        "compaction_trigger",
        "configuration_update",
        "context_compaction",
        "ghost_snapshot",
    )
)
CALLS = frozenset(
    (
        "function_call",
        "custom_tool_call",
        "local_shell_call",
        "web_search_call",
        "image_generation_call",
        "tool_search_call",
    )
)
RESULTS = frozenset(("function_call_output", "custom_tool_call_output", "tool_search_output"))

# Who put a piece of a user's message there; what is not the user's own is the program's.
_THEIRS = ("user.", "shell.user_command", "unknown")
# The same for older versions, which do not say: by how the piece begins.
_INJECTED = (
    "<environment_context>",
    "<user_instructions>",
    "# AGENTS.md instructions for ",
    "<INSTRUCTIONS>",
    "<skill>",
    "<turn_aborted>",
    "<subagent_notification>",
    "<permissions instructions>",
    "<collaboration_mode>",
    "<personality_spec>",
    "<hook_prompt",
    "<user_action>",
)
_NOTHING = msgspec.Raw(b"null")


class Piece(msgspec.Struct, gc=False):
    """One piece of a content. An image's data stays undecoded bytes: it is never copied."""

    type: str = ""
    text: str | None = None
    image_url: msgspec.Raw = _NOTHING
    file_id: str | None = None


class Provenance(msgspec.Struct, gc=False):
    """What the program says about the pieces of a message: who put each of them there."""

    content_item_kinds: list[str] | None = None


class Item(msgspec.Struct, gc=False):
    """The payload of a `response_item`, of whatever kind."""

    type: str = ""
    id: str | None = None
    role: str | None = None
    content: list[Piece] | str | None = None
    summary: list[Piece] | None = None
    name: str | None = None
    namespace: str | None = None
    arguments: Any = None
    input: str | None = None
    call_id: str | None = None
    output: str | list[Piece] | dict[str, Any] | None = None
    action: Any = None
    tools: msgspec.Raw = _NOTHING
    result: msgspec.Raw = _NOTHING
    revised_prompt: str | None = None
    author: str | None = None
    internal_chat_message_metadata_passthrough: Provenance | None = None


class Note(msgspec.Struct, gc=False):
    """What the program notes beside a record."""

    compaction_output: bool | None = None


class ItemLine(msgspec.Struct, gc=False):
    """A line that holds an item of the conversation."""

    timestamp: str = ""
    payload: Item = msgspec.field(default_factory=Item)
    metadata: Note | None = None
    cortext: Mark | None = None


class HistoryBase(msgspec.Struct, gc=False):
    """The earlier page that this one continues, and how far of it counts."""

    thread_id: str = ""
    end_byte_offset: int = 0


class Meta(msgspec.Struct, gc=False):
    """The payload of `session_meta`; in the oldest files it stands bare."""

    id: str = ""
    session_id: str | None = None
    timestamp: str | None = None
    cwd: str | None = None
    source: Any = None
    thread_source: str | None = None
    model_provider: str | None = None
    parent_thread_id: str | None = None
    history_base: HistoryBase | None = None
    subagent_history_start_ordinal: int | None = None

    @property
    def is_side_agent(self) -> bool:
        """Whether this is not the user's own conversation but an agent's that the program sent off."""
        spawned = isinstance(self.source, dict) and "subagent" in self.source
        return spawned or bool(self.parent_thread_id) or self.thread_source not in (None, "", "user")


class MetaLine(msgspec.Struct, gc=False):
    """The first line of a rollout."""

    type: str = ""
    payload: Meta = msgspec.field(default_factory=Meta)
    cortext: Mark | None = None


class Turn(msgspec.Struct, gc=False):
    """The payload of `turn_context`."""

    model: str | None = None


class TurnLine(msgspec.Struct, gc=False):
    payload: Turn = msgspec.field(default_factory=Turn)


class Usage(msgspec.Struct, gc=False):
    """The payload of `token_usage_record`, or of the older `token_count`."""

    usage: dict[str, Any] | None = None
    info: UsageInfo | None = None


class UsageInfo(msgspec.Struct, gc=False):
    last_token_usage: dict[str, Any] | None = None


class UsageLine(msgspec.Struct, gc=False):
    payload: Usage = msgspec.field(default_factory=Usage)


class Event(msgspec.Struct, gc=False):
    """The payload of the few events that tell us something."""

    message: str | None = None  # of `compacted`: the summary
    num_turns: int | None = None  # of `thread_rolled_back`
    thread_name: str | None = None


class EventLine(msgspec.Struct, gc=False):
    payload: Event = msgspec.field(default_factory=Event)


class AnyLine(msgspec.Struct, gc=False):
    """A line in whatever spelling: old files have the item bare on the line."""

    type: str = ""
    payload: msgspec.Raw = _NOTHING
    record_type: str | None = None


items = msgspec.json.Decoder(ItemLine)
bare_items = msgspec.json.Decoder(Item)
metas = msgspec.json.Decoder(MetaLine)
bare_metas = msgspec.json.Decoder(Meta)
turns = msgspec.json.Decoder(TurnLine)
usages = msgspec.json.Decoder(UsageLine)
events = msgspec.json.Decoder(EventLine)
anything = msgspec.json.Decoder(AnyLine)
values = msgspec.json.Decoder()


def ordinal_of(line: bytes) -> str:
    """The number of a line within its thread, where it has one."""
    found = _ORDINAL.search(line, 0, LOOK)
    return found[1].decode("ascii") if found else ""


def is_theirs(text: str, kind: str | None) -> bool:
    """Whether a piece of a user's message is the user's own, and not put there by the program."""
    if kind is None:
        return not text.startswith(_INJECTED)
    # What a hook said is marked as nobody's; the program wraps it.
    return kind.startswith(_THEIRS) and not (kind == "unknown" and text.startswith("<hook_prompt hook_run_id="))


def arguments_of(value: Any) -> Any:
    """A call's arguments: the JSON in the text, or the text where that is none."""
    if not isinstance(value, str):
        return {} if value is None else value
    try:
        return values.decode(value) if value else {}
    except (msgspec.DecodeError, RecursionError):
        return value


def image_of(piece: Piece, instead: str) -> tuple[str, str]:
    """An image's reference and media type. Data inside the record is not copied: `instead` names its place."""
    data = bytes(memoryview(piece.image_url)[:400]).strip(b'"')
    if data.startswith(b"data:"):
        return instead, data[5:].partition(b";")[0].decode("ascii", "replace")
    if data.startswith(b"http"):
        return str(value_of(piece.image_url) or ""), ""
    return piece.file_id or instead, ""


def split(line: bytes) -> tuple[list[bytes], bool]:
    """The records that stand glued on one line, and whether nothing was left over or torn."""
    starts = [found.start() for found in _BEGIN.finditer(line)]
    whole = bool(starts) and not line[: starts[0]].strip(b"\0 \t\r\xef\xbb\xbf")
    found: list[bytes] = []
    place = 0
    while place < len(starts):
        # A record may hold an object that begins like one: then it goes on beyond the next beginning.
        for after in range(place + 1, min(place + 8, len(starts)) + 1):
            record = line[starts[place] : starts[after] if after < len(starts) else len(line)].rstrip(b"\0 \t\r")
            if _is_value(record):
                found.append(record)
                place = after
                break
        else:
            whole = False
            place += 1
    return found, whole


def _is_value(data: bytes) -> bool:
    try:
        anything.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True
