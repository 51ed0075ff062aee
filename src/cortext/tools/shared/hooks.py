"""What the hooks of the AI tools have in common: the fields of a payload, and the answer that adds to a prompt."""

from __future__ import annotations

from typing import Any

import msgspec


def text_of(payload: dict[str, Any], name: str) -> str:
    """Return a field of a hook's payload; empty if it is missing or not a string."""
    value = payload.get(name)
    return value if isinstance(value, str) else ""


def additional_context(event: str, context: str) -> str:
    """Return the answer that makes Claude Code, Gemini CLI and Codex add a text to a prompt."""
    answer = {"hookSpecificOutput": {"hookEventName": event, "additionalContext": context}}
    return msgspec.json.encode(answer).decode("utf-8")
