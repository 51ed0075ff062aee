"""Translates Codex's hook payloads into events, and context into hook answers.

A payload names the thread and the path of its current page, which may be null. Reading does not depend on hooks, which
need the user's approval: the rollout contains every message.
"""

from __future__ import annotations

from typing import Any

import msgspec

from cortext.tools.base import HookEvent
from cortext.tools.codex.builder import command_of
from cortext.tools.shared.hooks import additional_context, text_of

_KINDS = {
    "SessionStart": "started",
    "UserPromptSubmit": "prompt",
    "Stop": "answered",
    "PostCompact": "compacted",
    "SessionEnd": "ended",
}
# The events after which Codex passes a hook's text to the model, as a developer message. Text from a past conversation
# must not have that authority. What a Stop hook returns becomes a user message of at most 10,000 characters, so such
# text goes there.
_TAKES_CONTEXT = ("SessionStart", "UserPromptSubmit")


def hook_event(payload: dict[str, Any]) -> HookEvent | None:
    """Return what happened and in which thread; None if the payload names no event or no thread."""
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
        # An event of a subagent: `session_id` is that of its parent thread.
        event.kind, event.key = "other", agent
    elif name == "UserPromptSubmit":
        event.command, event.arguments = command_of(event.text)
        if event.command:
            event.kind = "command"
    return event


def hook_answer(payload: dict[str, Any], context: str) -> str:
    """Return the JSON with which Codex gives a text to the model; empty if it takes none with this event."""
    name = text_of(payload, "hook_event_name")
    if name == "Stop" and context:
        return msgspec.json.encode({"decision": "block", "reason": context}).decode("utf-8")
    if name not in _TAKES_CONTEXT or not context:
        return ""
    return additional_context(name, context)
