"""The hooks of the AI tools, as far as they are alike: fields of a payload, and the answer that adds to a prompt."""

from __future__ import annotations

from typing import Any

import msgspec


def text_of(payload: dict[str, Any], name: str) -> str:
    """A field of a hook's payload; empty where it is missing or not a text."""
    value = payload.get(name)
    return value if isinstance(value, str) else ""


def additional_context(event: str, context: str) -> str:
    """The answer with which Claude Code, Gemini CLI and Codex give a text to the model beside a prompt."""
    answer = {"hookSpecificOutput": {"hookEventName": event, "additionalContext": context}}
    return msgspec.json.encode(answer).decode("utf-8")
