"""What we note in the records that we write for Gemini CLI, and what they have in common with the program's own."""

from __future__ import annotations

from typing import Any

import msgspec

from cortext.tools.shared import mark

# A user message that begins so is the program's or a hook's, not the user's.
SESSION_CONTEXT = "<session_context>"
HOOK_CONTEXT = "<hook_context>"


class Mark(mark.Mark, omit_defaults=True):
    """`lead` counts the text parts that we put in front.

    The rest is in sessions that earlier versions wrote: `results` are tool results that had to become text (call id,
    name, whether it was an error, whether it said anything), `files` what had to become a note (type, ref, media type,
    name), `names` and `wrapped` calls whose name or input changed.
    """

    added: bool | str = msgspec.field(default=False, name="made")
    lead: int = 0
    results: list[tuple[str, str, bool, bool]] | None = None
    files: list[tuple[str, str, str, str]] | None = None
    names: dict[str, str] | None = None
    wrapped: list[str] | None = None


def dump(value: Any) -> str:
    """A value as JSON text."""
    return msgspec.json.encode(value).decode("utf-8")
