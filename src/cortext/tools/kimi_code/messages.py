"""The records in Kimi Code's event log (`wire.jsonl`), with only the fields that we need, and the messages in them.

The user's words, and what Kimi Code adds to them, are `context.append_message`; `origin` says who wrote it. An answer
consists of loop events between `step.begin` and `step.end`: parts of the text, tool calls and their results.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from cortext.model import clock
from cortext.model.message import (
    ASSISTANT,
    FILE,
    IMAGE,
    SYSTEM,
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
from cortext.tools.shared.commands import command_in
from cortext.tools.shared.lines import derived_id
from cortext.tools.shared.native import Mark

MESSAGE = "context.append_message"
LOOP_EVENT = "context.append_loop_event"
COMPACTION = "context.apply_compaction"
CLEAR = "context.clear"
UNDO = "context.undo"
REQUEST = "llm.request"
USAGE = "usage.record"
TOOLS = "llm.tools_snapshot"  # all tools that the model gets from now on
# Bookkeeping, and second copies of what the records above contain.
_BOOKKEEPING = """
    metadata runtime.set_binding profile.bind config.update tools.set_active_tools tools.reset_active_tools
    tools.register_user_tool tools.unregister_user_tool tools.update_store permission.set_mode
    permission.rules.add permission.record_approval_result permission.approval.requested
    permission.approval.resolved turn.prompt turn.steer turn.cancel turn.ended turn.step.interrupted
    turn.step.retrying prompt.submitted prompt.queued prompt.started prompt.steered prompt.completed
    prompt.aborted agent.message.appended agent.turn.started agent.turn.ended agent.switched
    plugin.session_start plugin_command.activated skill.activated llm.tools_snapshot token_counting.measured
    token_counting.rebased token_counting.truncated token_counting.turn_recorded full_compaction.begin
    full_compaction.cancel full_compaction.complete context.undone goal.create goal.update goal.clear
    plan_mode.enter plan_mode.exit plan_mode.cancel plan.revision swarm_mode.enter swarm_mode.exit
    tower_mode.enter tower_mode.exit tower.inbox.sent task.started task.terminated task.notified
    task.waitDelivered cron.add cron.delete cron.cursor cron.fired interaction.request interaction.resolved
    file_history.checkpoint file_history.tracked mcp.tools_discovered interruptionReminder.recorded forked
    hook.result
"""
SKIPPED = frozenset(_BOOKKEEPING.split())
# Who wrote a message of role user, if not the user.
_OTHER_WRITERS = "injection system_trigger task background_task cron_job cron_missed hook_result retry other"
INJECTED = frozenset(_OTHER_WRITERS.split())
_MEDIA_TYPE = re.compile(r"data:([\w.+-]+/[\w.+-]+)")
_SKILL = "workspace-"


# ── records ──────────────────────────────────────────────────────────────────────────────────────────


class Url(msgspec.Struct):
    url: str = ""
    name: str | None = None


class ContentPart(msgspec.Struct):
    type: str = ""
    text: str = ""
    think: str = ""
    image: Url | None = msgspec.field(default=None, name="imageUrl")
    video: Url | None = msgspec.field(default=None, name="videoUrl")
    audio: Url | None = msgspec.field(default=None, name="audioUrl")


class ToolCall(msgspec.Struct):
    id: str = ""
    name: str = ""
    arguments: Any = None  # JSON in a string


class Origin(msgspec.Struct):
    kind: str = "user"
    trigger: str = ""
    phase: str = ""
    in_turn: bool = msgspec.field(default=False, name="inTurn")
    skill: str = msgspec.field(default="", name="skillName")
    skill_arguments: str | None = msgspec.field(default=None, name="skillArgs")
    command: str = msgspec.field(default="", name="commandName")
    command_arguments: str | None = msgspec.field(default=None, name="commandArgs")
    bundled: list[Any] | None = msgspec.field(default=None, name="skillActivations")


class ContextMessage(msgspec.Struct):
    role: str = ""
    content: str | list[ContentPart] | None = None
    id: str = ""
    calls: list[ToolCall] | None = msgspec.field(default=None, name="toolCalls")
    call_id: str = msgspec.field(default="", name="toolCallId")
    is_error: bool = msgspec.field(default=False, name="isError")
    origin: Origin | None = None


class ToolResult(msgspec.Struct):
    output: str | list[ContentPart] | None = None
    is_error: bool = msgspec.field(default=False, name="isError")


class LoopEvent(msgspec.Struct):
    type: str = ""
    uuid: str = ""
    parent: str = msgspec.field(default="", name="parentUuid")
    part: ContentPart | None = None
    call_id: str = msgspec.field(default="", name="toolCallId")
    name: str = ""
    args: Any = None
    result: ToolResult | None = None


class Record(msgspec.Struct):
    type: str = ""
    time: float | None = None
    message: ContextMessage | None = None
    event: LoopEvent | None = None
    model: str = ""
    usage: dict[str, Any] | None = None
    count: int = 0
    summary: str | ContextMessage | None = None
    context_summary: str | None = msgspec.field(default=None, name="contextSummary")
    tools: msgspec.Raw = msgspec.Raw(b"[]")
    cortext: Mark | None = None


class State(msgspec.Struct):
    """The file `state.json` of a session."""

    id: str = ""
    cwd: str = ""
    title: str = ""
    created: float | None = msgspec.field(default=None, name="createdAt")


class Tool(msgspec.Struct):
    """A tool of the record TOOLS."""

    name: str = ""


record_decoder = msgspec.json.Decoder(Record)
_tools_decoder = msgspec.json.Decoder(list[Tool])


def mcp_tools_in(record: Record) -> list[str]:
    """Return the names of the MCP tools of a record; none if they cannot be read."""
    try:
        return [tool.name for tool in _tools_decoder.decode(record.tools) if tool.name.startswith("mcp__")]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []


# ── messages ─────────────────────────────────────────────────────────────────────────────────────────


def timestamp(milliseconds: float | None) -> str:
    """Return a time of Kimi Code in our form; empty if there is none."""
    return clock.from_epoch(milliseconds / 1000) if milliseconds and 0 < milliseconds < 1e14 else ""


def literal_message(record: Record, key: str) -> Message:
    """Return what a record of the kind `context.append_message` says, without our annotation."""
    said = record.message or ContextMessage()
    parts = _parts(said.content)
    text = joined_text(parts)
    when = timestamp(record.time)
    message = Message(
        role=said.role, timestamp=when, id=said.id or derived_id(key, said.role, when, text, said.call_id)
    )
    if said.role == TOOL:
        message.parts = [_result(said.call_id, parts, is_error=said.is_error)]
        return message
    origin = said.origin or Origin()
    if said.role == USER:
        if typed := typed_command(origin):
            message.content = typed
            return message
        if origin.kind == "shell_command" and origin.phase == "output":
            message.role = SYSTEM
        name, arguments = command_in(text)
        if name and len(parts) == 1:
            parts = [Part(TEXT, text=f"/{name} {arguments}".strip())]
        parts = parts[len(origin.bundled or ()) :]
        if BEGIN in text and record.cortext is None:
            message.extra = {"resume_block": True}
    parts += [
        Part(TOOL_CALL, id=call.id, name=call.name, input=_arguments(call.arguments)) for call in said.calls or ()
    ]
    return filled(message, parts)


def typed_command(origin: Origin) -> str:
    """Return a command as the user typed it; empty if the message is not one."""
    if origin.trigger != "user-slash":
        return ""
    name = origin.skill or origin.command
    arguments = origin.skill_arguments or origin.command_arguments or ""
    # Our commands are skills here, whose names cannot contain dots.
    name = f"workspace.{name.removeprefix(_SKILL)}" if name.startswith(_SKILL) else name
    return f"/{name} {arguments}".strip()


def filled(message: Message, parts: list[Part]) -> Message:
    """Return the message with its text and, unless that is all, its parts."""
    message.content = joined_text(parts)
    if len(parts) > 1 or any(part.type != TEXT for part in parts):
        message.parts = parts
    return message


class Step:
    """One answer of the model and the results of its calls, as its events arrive."""

    def __init__(self, event: LoopEvent, time: float | None, offset: int) -> None:
        self.offset = offset
        self.model = ""
        self.usage: dict[str, Any] | None = None
        self._answer = Message(role=ASSISTANT, id=event.uuid, timestamp=timestamp(time))
        self._parts: list[Part] = []
        self._results: list[Message] = []

    def add(self, event: LoopEvent, time: float | None) -> bool:
        """Take in one event; return whether its kind is known."""
        if event.type == "content.part" and event.part is not None:
            self._parts += _parts([event.part])
        elif event.type == "tool.call":
            self._parts.append(Part(TOOL_CALL, id=event.call_id, name=event.name, input=event.args))
        elif event.type == "tool.result" and event.result is not None:
            part = _result(event.call_id, _parts(event.result.output), is_error=event.result.is_error)
            identity = derived_id(event.parent or event.call_id, "result")
            self._results.append(Message(role=TOOL, id=identity, timestamp=timestamp(time), parts=[part]))
        else:
            return False
        return True

    def messages(self) -> list[Message]:
        """Return the answer and the results."""
        answer = self._answer
        answer.model, answer.usage = self.model, self.usage
        output = (self.usage or {}).get("output")
        answer.tokens = output if isinstance(output, int) else None
        return [*([filled(answer, self._parts)] if self._parts else []), *self._results]


def _parts(content: str | list[ContentPart] | None) -> list[Part]:
    if isinstance(content, str):
        return [Part(TEXT, text=content)] if content else []
    parts = []
    for part in content or ():
        if part.type == "think":
            parts.append(Part(THINKING, text=part.think))
        elif media := part.image or part.video or part.audio:
            found = _MEDIA_TYPE.match(media.url)
            # A long inline image is not a reference; Kimi Code keeps large ones in files, which `blobref:` names.
            ref = derived_id(media.url) if found else media.url
            kind = IMAGE if part.image else FILE
            parts.append(Part(kind, ref=ref, media_type=found[1] if found else "", name=media.name or ""))
        elif part.text:
            parts.append(Part(TEXT, text=part.text))
    return parts


def _result(call: str, parts: list[Part], *, is_error: bool) -> Part:
    return Part(
        TOOL_RESULT, call_id=call, output="\n".join(part.text for part in parts if part.text), is_error=is_error
    )


def _arguments(value: Any) -> Any:
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, TypeError, UnicodeEncodeError, RecursionError):
        return value  # the model's text as it is
