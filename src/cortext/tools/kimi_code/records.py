"""The records in Kimi Code's event log (`wire.jsonl`), with only the fields that we need.

The user's words, and what Kimi Code adds to them, are `context.append_message`; `origin` says who wrote it. An answer
consists of loop events between `step.begin` and `step.end`: parts of the text, tool calls and their results.
"""

from __future__ import annotations

from typing import Any

import msgspec

from cortext.tools.shared.mark import Mark

MESSAGE = "context.append_message"
LOOP_EVENT = "context.append_loop_event"
COMPACTION = "context.apply_compaction"
CLEAR = "context.clear"
UNDO = "context.undo"
REQUEST = "llm.request"
USAGE = "usage.record"

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
    cortext: Mark | None = None


class State(msgspec.Struct):
    """The file `state.json` of a session."""

    id: str = ""
    cwd: str = ""
    title: str = ""
    created: float | None = msgspec.field(default=None, name="createdAt")


record_decoder = msgspec.json.Decoder(Record)
