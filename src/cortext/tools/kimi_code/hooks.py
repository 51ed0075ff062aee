"""Translates Kimi Code's hook payloads into events, and context into hook answers.

A prompt that the user types is reported before it is sent (`UserPromptSubmit`), a skill only when its turn begins
(`TurnStarted`), and then Kimi Code ignores the answer. The payloads do not name the transcript.
"""

from __future__ import annotations

import html
import re
from typing import Any

import msgspec

from cortext.safety.framing import BEGIN
from cortext.tools.base import HookEvent
from cortext.tools.kimi_code.messages import command_in
from cortext.tools.shared.hooks import text_of

_KINDS = {
    "SessionStart": "started",
    "UserPromptSubmit": "prompt",
    "TurnStarted": "command",
    "Stop": "answered",
    "PostCompact": "compacted",
    "SessionEnd": "ended",
}
_SKILL = re.compile(r'<skill-loaded name="workspace-([^"]+)" trigger="user-slash"(?:[^>]*? args="([^"]*)")?')


def hook_event(payload: dict[str, Any], path: str) -> HookEvent | None:
    """Return what happened in which session, whose transcript is at `path`; None if it is of no interest."""
    kind, key = _KINDS.get(text_of(payload, "hook_event_name")), text_of(payload, "session_id")
    if kind is None or not key:
        return None
    event = HookEvent(kind=kind, key=key, path=path, project=text_of(payload, "cwd"), text=_prompt(payload))
    if kind == "command":
        skill = _SKILL.search(event.text)
        if skill is None:
            return None  # another turn: its prompt was reported before
        event.command = f"workspace.{skill[1]}"
        event.arguments = html.unescape(skill[2] or "")
    elif kind == "prompt":
        event.command, event.arguments = command_in(event.text)
        if event.command:
            event.kind = "command"
        elif BEGIN in event.text:
            event.kind = "started"  # it contains what we wrote; the user did not type it
    return event


def hook_answer(payload: dict[str, Any], context: str) -> str:
    """Return what makes Kimi Code give a text to the model; it takes none except with a prompt."""
    if not context or payload.get("hook_event_name") != "UserPromptSubmit":
        return ""
    return msgspec.json.encode({"message": context}).decode("utf-8")


def _prompt(payload: dict[str, Any]) -> str:
    """Return the text of a prompt, which may be a list of parts."""
    prompt = payload.get("prompt")
    if not isinstance(prompt, list):
        return text_of(payload, "prompt")
    return "\n\n".join(text_of(part, "text") for part in prompt if isinstance(part, dict))
