"""The records of a Codex rollout: which kinds there are, and the fields of each that we need.

A line is `{"timestamp", "ordinal", "type", "payload"}`. Its first bytes show its kind, so most lines are never parsed.
Typed decoding skips what is not needed (images, instructions).
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from cortext.model.message import (
    ASSISTANT,
    IMAGE,
    SYSTEM,
    TEXT,
    TOOL,
    TOOL_CALL,
    TOOL_RESULT,
    USER,
    Part,
    joined_text,
)
from cortext.tools.base import About, Counts
from cortext.tools.shared import native
from cortext.tools.shared.commands import RESUMED
from cortext.tools.shared.lines import derived_id, note, value_of

# How a line begins, as Codex writes it.
BEGIN = b'{"timestamp":"'
_BEGIN = re.compile(rb'\{"timestamp": ?"')
HEADER_SIZE = 120  # bytes within which a record's kind is found
KIND = b',"type":"'
ITEM = b'response_item","payload":{"type":"'
EVENT = b'event_msg","payload":{"type":"'
_ORDINAL = re.compile(rb'"ordinal": ?(\d+)')

# Kinds of records and events that are Codex's own bookkeeping: known, and not part of the conversation.
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
# A few kinds are not skipped: those that say something about the conversation, and, while an answer is open, those that
# end it.
_INFORMATIVE = {"turn_context", "token_usage_record", "compacted"}
_INFORMATIVE_EVENTS = {"thread_rolled_back", "thread_name_updated"}
ENDING_EVENTS = frozenset((b"token_count", b"task_complete", b"turn_aborted"))
# The names under which skipped records are counted.
SKIPPED = {name.encode(): name for name in BOOKKEEPING - _INFORMATIVE}
SKIPPED_EVENTS = {name.encode(): f"event {name}" for name in EVENTS - _INFORMATIVE_EVENTS}
# Items of the model's history that are neither messages nor tool calls.
IGNORED_ITEMS = frozenset(
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

# Kinds of content items of a user message that are the user's own. Codex inserted all others.
_USER_KINDS = ("user.", "shell.user_command", "unknown")
# How a content item that Codex inserted begins. Older versions do not record the kind.
_INSERTED = (
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
_SKILL = re.compile(r"<skill>\s*<name>([^<\n]{1,200})</name>")
_NULL = msgspec.Raw(b"null")


class Mark(native.Mark, omit_defaults=True, gc=False):
    """`of` is the number of records of the message; `more` is set on all but the first of them."""

    of: int = 1
    more: bool = False
    title: str = ""


class ContentItem(msgspec.Struct, gc=False):
    """One item of a message's content. An image's data stays undecoded bytes: it is never copied."""

    type: str = ""
    text: str | None = None
    image_url: msgspec.Raw = _NULL
    file_id: str | None = None


class Provenance(msgspec.Struct, gc=False):
    """The kinds of a message's content items, which say who wrote each of them."""

    content_item_kinds: list[str] | None = None


class Item(msgspec.Struct, gc=False):
    """The payload of a `response_item` of any kind."""

    type: str = ""
    id: str | None = None
    role: str | None = None
    content: list[ContentItem] | str | None = None
    summary: list[ContentItem] | None = None
    name: str | None = None
    namespace: str | None = None
    arguments: Any = None
    input: str | None = None
    call_id: str | None = None
    output: str | list[ContentItem] | dict[str, Any] | None = None
    action: Any = None
    tools: msgspec.Raw = _NULL
    result: msgspec.Raw = _NULL
    revised_prompt: str | None = None
    internal_chat_message_metadata_passthrough: Provenance | None = None


class Metadata(msgspec.Struct, gc=False):
    """The metadata of a record."""

    compaction_output: bool | None = None


class ItemLine(msgspec.Struct, gc=False):
    """A line with an item of the conversation."""

    timestamp: str = ""
    payload: Item = msgspec.field(default_factory=Item)
    metadata: Metadata | None = None
    cortext: Mark | None = None


class HistoryBase(msgspec.Struct, gc=False):
    """The earlier page that this one continues, and up to which offset."""

    thread_id: str = ""
    end_byte_offset: int = 0


class Meta(msgspec.Struct, gc=False):
    """The payload of `session_meta`. In the oldest files it is the whole line."""

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
    git: Any = None

    @property
    def remote(self) -> str:
        """The address of the project's git remote; empty if Codex did not record one."""
        address = self.git.get("repository_url") if isinstance(self.git, dict) else None
        return address if isinstance(address, str) else ""

    @property
    def checkout(self) -> tuple[str, str]:
        """The branch and the commit that were checked out when the thread began; empty if Codex did not record them."""
        git = self.git if isinstance(self.git, dict) else {}
        return str(git.get("branch") or ""), str(git.get("commit_hash") or "")

    @property
    def is_subagent(self) -> bool:
        """Whether this is the thread of a subagent."""
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
    rate_limits: Any = None

    @property
    def resets(self) -> dict[str, int]:
        """When the limits are reset, in seconds since 1970, by the minutes of their windows."""
        windows = self.rate_limits.values() if isinstance(self.rate_limits, dict) else ()
        found = [(each.get("window_minutes"), each.get("resets_at")) for each in windows if isinstance(each, dict)]
        return {
            str(minutes): at for minutes, at in found if type(minutes) is int and type(at) is int and 0 < at < 2**40
        }


class UsageInfo(msgspec.Struct, gc=False):
    last_token_usage: dict[str, Any] | None = None


class UsageLine(msgspec.Struct, gc=False):
    payload: Usage = msgspec.field(default_factory=Usage)


class Event(msgspec.Struct, gc=False):
    """The payload of the few events that say something about the conversation."""

    message: str | None = None  # of `compacted`: the summary
    num_turns: int | None = None  # of `thread_rolled_back`
    thread_name: str | None = None


class EventLine(msgspec.Struct, gc=False):
    payload: Event = msgspec.field(default_factory=Event)


class AnyLine(msgspec.Struct, gc=False):
    """A line of any form: in old files it is the item itself."""

    type: str = ""
    payload: msgspec.Raw = _NULL
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
    """Return the number of a line within its thread; empty if it has none."""
    found = _ORDINAL.search(line, 0, HEADER_SIZE)
    return found[1].decode("ascii") if found else ""


def skill_in(text: str) -> str:
    """Return the name of the skill whose instructions Codex inserted with this text; empty if it is another text."""
    found = _SKILL.match(text) if text.startswith("<skill>") else None
    return found[1].strip() if found else ""


def is_users_own(text: str, kind: str | None) -> bool:
    """Whether a content item of a user message was written by the user, not inserted by Codex."""
    if kind is None:
        return not text.startswith(_INSERTED)
    # The output of a hook has the kind "unknown", but a tag around it.
    return kind.startswith(_USER_KINDS) and not (kind == "unknown" and text.startswith("<hook_prompt hook_run_id="))


def arguments_of(value: Any) -> Any:
    """Return the decoded arguments of a call; a text that is not JSON unchanged."""
    if not isinstance(value, str):
        return {} if value is None else value
    try:
        return values.decode(value) if value else {}
    except (msgspec.DecodeError, RecursionError):
        return value


def image_of(content: ContentItem, position: str) -> tuple[str, str]:
    """Return an image's reference and media type. Inline data is not copied: `position` refers to it."""
    data = bytes(memoryview(content.image_url)[:400]).strip(b'"')
    if data.startswith(b"data:"):
        return position, data[5:].partition(b";")[0].decode("ascii", "replace")
    if data.startswith(b"http"):
        return str(value_of(content.image_url) or ""), ""
    return content.file_id or position, ""


def split_records(line: bytes) -> tuple[list[bytes], bool]:
    """Return the records that are joined on one line, and whether they are all of it."""
    starts = [found.start() for found in _BEGIN.finditer(line)]
    is_complete = bool(starts) and not line[: starts[0]].strip(b"\0 \t\r\xef\xbb\xbf")
    found: list[bytes] = []
    index = 0
    while index < len(starts):
        # A record may contain an object that begins like one, and then extends beyond the next start.
        for after in range(index + 1, min(index + 8, len(starts)) + 1):
            record = line[starts[index] : starts[after] if after < len(starts) else len(line)].rstrip(b"\0 \t\r")
            if _is_json(record):
                found.append(record)
                index = after
                break
        else:
            is_complete = False
            index += 1
    return found, is_complete


def _is_json(data: bytes) -> bool:
    try:
        anything.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return True


def image_in(record: dict[str, Any], rest: list[str]) -> str | None:
    """Return the `data:` URL of an image in a record, by its position in the content or the output."""
    payload = record.get("payload")
    item = payload if isinstance(payload, dict) else record
    values = item.get("content") or item.get("output")
    if not isinstance(values, list) or not rest[0].isdecimal() or int(rest[0]) >= len(values):
        return None
    value = values[int(rest[0])]
    return str(value.get("image_url") or "") if isinstance(value, dict) else None


# ── the content of an item ───────────────────────────────────────────────────────────────────────────

_EXIT_CODE = re.compile(r"(?:Chunk ID: .*\n)?(?:Wall time: .*\n)?(?:Process exited with code|Exit code:) (-?\d+)")
_PATH = re.compile(r'path="([^"]*)"')
_UNIQUE_ID = 20  # characters; a shorter id may be a local model's counter, which repeats


Content = tuple[str, str, list[Part] | None]  # role, text, and the parts if there is more than text
_OWN_SKILLS = "workspace-"  # a resume sends their current text
_NOTHING: Content = "", "", None


class Items:
    """Reads items, and remembers the tool calls without a result yet."""

    def __init__(self, key: str, about: About, counts: Counts) -> None:
        self.key, self.about, self.counts = key, about, counts
        self.calls: dict[str, str] = {}
        self.page = key
        self.line = b""  # the line being read
        self.begin = 0  # its offset
        self.number = ""  # the number of the record on that line, if it has several

    def id_of(self, item: Item) -> str:
        """Return the record's id: with its position if the id may repeat, or made from the position if it has none."""
        if item.id and len(item.id) >= _UNIQUE_ID:
            return item.id
        position = ordinal_of(self.line) or f"{self.begin}{self.number}"
        return f"{item.id}@{self.page}:{position}" if item.id else derived_id(self.page, position)

    def read(self, item: Item) -> Content:
        """Return the content of an item; with an empty role if none of it belongs to the conversation."""
        kind = item.type
        if kind in RESULTS:
            return TOOL, "", self.result(item)
        if kind in CALLS:
            return ASSISTANT, "", self.call(item)
        if kind in ("message", "agent_message"):
            return self.message(item)
        note(self.counts.skipped if kind in IGNORED_ITEMS else self.counts.unknown, kind or "without type")
        return _NOTHING

    def message(self, item: Item) -> Content:
        """Return the content of a message, without what Codex inserted."""
        contents = [ContentItem(text=item.content)] if isinstance(item.content, str) else item.content or []
        if item.role == ASSISTANT:
            if len(contents) == 1 and (text := contents[0].text):
                return ASSISTANT, text, None
            return self._joined(ASSISTANT, [Part(TEXT, text=content.text) for content in contents if content.text])
        provenance = item.internal_chat_message_metadata_passthrough
        kinds = (provenance.content_item_kinds if provenance else None) or ()
        parts: list[Part] = []
        left_out = False
        for index, content in enumerate(contents):
            kind = kinds[index] if index < len(kinds) else None
            if content.type == "input_image":
                ref, media = image_of(content, f"{self.key}#{self.id_of(item)}/{index}")
                parts.append(Part(IMAGE, ref=ref, media_type=media, name=_image_name(contents, index)))
            elif content.text is None:
                note(self.counts.unknown, f"content item {content.type or 'without text'}")
            elif not is_users_own(content.text, kind) and RESUMED not in content.text:
                skill = skill_in(content.text)
                if len(contents) == 1 and skill and not skill.startswith(_OWN_SKILLS):
                    self.about.skills += [] if skill in self.about.skills else [skill]
                    return SYSTEM, content.text, None
                self.about.notes += not skill
                note(self.counts.skipped, kind or "inserted by Codex")
                left_out = True
            elif not _is_image_tag(contents, index):
                parts.append(Part(TEXT, text=content.text))
        return _NOTHING if left_out and not parts else self._joined(USER, parts)

    def _joined(self, role: str, parts: list[Part]) -> Content:
        if not parts:
            note(self.counts.skipped, "empty message")
            return _NOTHING
        if len(parts) == 1 and parts[0].type == TEXT:
            return role, parts[0].text, None
        return role, joined_text(parts), parts

    def call(self, item: Item) -> list[Part]:
        """Return the parts of a tool call of any kind."""
        kind = item.type
        call = Part(TOOL_CALL, id=item.call_id or item.id or self.id_of(item))
        call.name = item.name or kind.removesuffix("_call")
        if kind in ("function_call", "tool_search_call"):
            call.input = arguments_of(item.arguments)
        elif kind == "custom_tool_call":
            call.input = item.input or ""
        elif kind == "image_generation_call":
            call.input = {"prompt": item.revised_prompt or ""}
        else:
            call.input = item.action
        if item.namespace:
            call.data = {"namespace": item.namespace}
        self.calls[call.id] = call.name
        if call.name not in self.about.tools:
            self.about.tools.append(call.name)
        if kind == "image_generation_call" and bytes(memoryview(item.result)[:1]) == b'"':
            return [call, Part(IMAGE, ref=f"{self.key}#{self.id_of(item)}/0", media_type="image/png")]
        return [call]

    def result(self, item: Item) -> list[Part]:
        """Return the parts of a tool result. Codex has no error flag; a command's exit code shows a failure."""
        call_id = item.call_id or ""
        output = item.output
        result = Part(TOOL_RESULT, call_id=call_id, name=self.calls.pop(call_id, ""))
        if item.type == "tool_search_output":
            output = bytes(item.tools).decode("utf-8", "replace")
        elif isinstance(output, dict):  # only older versions have a flag for success
            result.is_error = output.get("success") is False
            output = str(output.get("content", ""))
        if output is None or isinstance(output, str):
            result.output = output or ""
            if "code 0\n" not in result.output[:120] and (exit_code := _EXIT_CODE.match(result.output)):
                result.is_error = exit_code[1] != "0"
            return [result]
        result.output = "\n".join(content.text for content in output if content.text)
        parts = [result]
        for index, content in enumerate(output):
            if content.type == "input_image":
                ref, media = image_of(content, f"{self.key}#{self.id_of(item)}/{index}")
                parts.append(Part(IMAGE, ref=ref, media_type=media))
        return parts


def _is_image_tag(contents: list[ContentItem], index: int) -> bool:
    """Whether a text is a tag that Codex puts before or after an image."""
    text = contents[index].text or ""
    if text.startswith("<image") and text.endswith(">"):
        return index + 1 < len(contents) and contents[index + 1].type == "input_image"
    return text == "</image>" and index > 0 and contents[index - 1].type == "input_image"


def _image_name(contents: list[ContentItem], index: int) -> str:
    """Return the path of an image, from the tag before it."""
    if not index or not _is_image_tag(contents, index - 1):
        return ""
    found = _PATH.search(contents[index - 1].text or "")
    return found[1] if found else ""
