"""Codex's hook payloads in our words, and our answers in its.

A payload names the thread, and the page that it is being written to; the path may be null. Whether or not a
hook ever runs (it needs the user's approval) changes nothing for reading: the rollout holds every word.
"""

from __future__ import annotations

from typing import Any

import msgspec

from cortext.tools.base import HookEvent
from cortext.tools.codex.talk import command_of
from cortext.tools.shared.hooks import additional_context, text_of

_KINDS = {
    "SessionStart": "started",
    "UserPromptSubmit": "prompt",
    "Stop": "answered",
    "PostCompact": "compacted",
    "SessionEnd": "ended",
}
# The events with which Codex hands a hook's words to the model, as a developer's message: nothing that comes from a
# past conversation may stand there. What a hook says when the model has answered (that it is to go on) is a user's
# message, of 10,000 characters at most: that is where a record goes.
_HEARD = ("SessionStart", "UserPromptSubmit")


def hook_event(payload: dict[str, Any]) -> HookEvent | None:
    """What happened, and in which thread."""
    key = text_of(payload, "session_id")
    name = text_of(payload, "hook_event_name")
    if not key or not name:
        return None
    event = HookEvent(
        kind=_KINDS.get(name, "other"),
        key=key,
        path=text_of(payload, "transcript_path"),
        project=text_of(payload, "cwd"),
        text=text_of(payload, "prompt") or text_of(payload, "last_assistant_message"),
    )
    if agent := text_of(payload, "agent_id"):
        # A side agent's own event: `session_id` is that of the thread which sent it off.
        event.kind, event.key = "other", agent
    elif name == "UserPromptSubmit":
        event.command, event.arguments = command_of(event.text)
        if event.command:
            event.kind = "command"
    return event


def hook_answer(payload: dict[str, Any], context: str) -> str:
    """The JSON with which Codex adds a text to what the model gets."""
    name = text_of(payload, "hook_event_name")
    if name == "Stop" and context:
        return msgspec.json.encode({"decision": "block", "reason": context}).decode("utf-8")
    if name not in _HEARD or not context:
        return ""
    return additional_context(name, context)
