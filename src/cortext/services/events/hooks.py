"""Handling the hook events of an AI tool. Nothing that must happen is left to the model.

A command starts, resumes or stops a conversation. When the tool starts, or the user sends a prompt, in a chat that
belongs to a conversation, that conversation becomes active; a prompt may also say that the user wants to stop. An
answer and the end of the chat capture the new messages. Events may come twice, out of order, for several sessions at
once, or never: the transcript is authoritative, and the next event (or `cortext sync`) captures what is missing.
"""

from __future__ import annotations

import os
from collections.abc import Callable

import msgspec

from cortext.errors import UsageError
from cortext.model.session import ACTIVE, COMPLETED, PAUSED
from cortext.services.capture import uncaptured
from cortext.services.capture.intake import reason_of
from cortext.services.events.chat import ToolChat, World, safe_text
from cortext.tools.base import HookEvent, Hooks, ShowsNotes

# The tool waits for every hook, so modules that an ordinary turn does not need are imported where they are used.

PREFIX = "workspace."
FAILURE_RECORDED = "cortext: the failure is recorded"  # a note on an error that needs no second record


def handle(world_at: Callable[[str], World], tool: Hooks, payload: bytes) -> str:
    """Handle one event; return what to print for the tool, or nothing. Raise UsageError if the payload is invalid."""
    try:
        fields = msgspec.json.decode(payload)
    except (msgspec.DecodeError, RecursionError) as error:
        raise UsageError(f"the hook payload of {tool.name} is not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise UsageError(f"the hook payload of {tool.name} is not an object")
    project = fields.get("cwd")
    world = world_at(project if isinstance(project, str) and os.path.isdir(project) else "")
    event = tool.hook_event(fields)
    if event is None:
        return ""
    try:
        hook = Hook(world, tool, event)
        context = hook.run()
        answer = tool.hook_answer(fields, context) if context else ""
        if answer:
            hook.was_heard()
        alarms = hook.chat.alarms()
        if alarms and isinstance(tool, ShowsNotes):
            answer = tool.with_note(answer, f"cortext: {alarms}")
    except Exception as error:
        uncaptured.record(tool.name, event.key, event.path, reason_of(error), hook=True)
        error.add_note(FAILURE_RECORDED)
        raise
    return answer


class Hook:
    """The handling of one event."""

    def __init__(self, world: World, tool: Hooks, event: HookEvent) -> None:
        self.chat, self.event = ToolChat(world, tool, event), event
        self._gives_back = False  # whether the text has what a compaction dropped

    def run(self) -> str:
        """Do what the event requires; return the text for the model."""
        text = self._handle()
        if self.event.kind in ("prompt", "command", "answered"):
            self.chat.note_tools()
        return text

    def _handle(self) -> str:
        command, kind, chat = self.event.command, self.event.kind, self.chat
        if kind in ("prompt", "command"):
            chat.begin_turn()
            if command.startswith(PREFIX) and chat.world.workspace:
                from cortext.services.events.commands import run_command

                return run_command(chat, command.removeprefix(PREFIX))
        if kind == "prompt":
            text = safe_text(_prompted(chat))
            return "\n\n".join(filter(None, (self._dropped(len(text)), text)))
        if kind == "started":
            _started(chat)
        elif kind == "compacted":
            from cortext.services.events.compaction import note_compaction

            chat.capture_new()
            note_compaction(chat)
            return self._dropped()
        elif kind in ("answered", "ended"):
            _answered(chat, chat.capture_new(), ended=kind == "ended")
            return chat.end_turn()
        return ""

    def was_heard(self) -> None:
        """Note that the tool passes on what `run` returned."""
        if self._gives_back:
            from cortext.services.events.compaction import note_restored

            note_restored(self.chat)

    def _dropped(self, taken: int = 0) -> str:
        """Return what the tool's last compaction dropped, if the model has not got it back yet."""
        budget = self.chat.world.settings.resume.compaction_tokens
        if budget <= 0 or not self.chat.world.workspace or not self.chat.record().compacted:
            return ""
        from cortext.services.events.compaction import dropped_text

        text = dropped_text(self.chat, budget, taken)
        self._gives_back = bool(text)
        return text


def _prompted(chat: ToolChat) -> str:
    """Activate the conversation that the user goes on with; return what the model is to know."""
    conversation = chat.current()
    if conversation is None:
        return ""
    from cortext.services.workspace import pausing

    added = chat.said_elsewhere(conversation)
    paused = _paused_meanwhile(chat) if conversation.session.status == PAUSED else ""
    chat.activate(conversation)
    reaction = pausing.react_to_prompt(chat.event.text, conversation.session, chat.world.settings)
    if reaction.change is not None:
        conversation.store.update(conversation.session.id, reaction.change)
    return "\n\n".join(filter(None, (added, paused, reaction.context)))


def _paused_meanwhile(chat: ToolChat) -> str:
    """Tell the user that the conversation was paused while it was quiet; return what the model is to say of it."""
    minutes = chat.record().paused_after
    if minutes is None:
        return ""
    with chat.changed_record() as record:
        record.paused_after = None
    said = f"this conversation was saved and paused after {minutes:g} quiet minutes; it is active again."
    if isinstance(chat.tool, ShowsNotes):
        chat.tell(said)
        return ""
    return f"cortext: {said} Tell the user so, in a sentence."


def _started(chat: ToolChat) -> None:
    """Activate the conversation that the tool opened; a completed one only if it was just resumed."""
    entry, found = chat.entry(), chat.current()
    chat.capture_new()
    if found is not None and (found.session.status != COMPLETED or (entry is not None and entry.fresh)):
        chat.activate(found, opened=True)


def _answered(chat: ToolChat, added: int, *, ended: bool) -> None:
    """Save the conversation if the chat has ended or the user said goodbye."""
    conversation = chat.current()
    if conversation is None:
        return
    if conversation.session.status != ACTIVE:
        if (
            added and conversation.named_store.kind == "workspace"
        ):  # commit the answer to the command that stopped it too
            chat.save(conversation, conversation.session.status, amend=True)
        return
    elsewhere = conversation.session.origin.tool and conversation.session.origin != chat.origin
    if (ended and not elsewhere) or conversation.session.extra.get("pause_after_answer"):
        chat.save(conversation)
