"""What we note in the records that we write for Gemini CLI, and what they have in common with the program's own."""

from __future__ import annotations

from typing import Any

import msgspec

# A user message that begins so is the program's or a hook's, not the user's.
SESSION_CONTEXT = "<session_context>"
HOOK_CONTEXT = "<hook_context>"


class Mark(msgspec.Struct, omit_defaults=True):
    """What we note in a record that we wrote ourselves: how to get our message back out of it.

    `made` is a record that stands for no message of ours; `lead` counts the text parts that we put in front; `was` is
    the message as it was, where the record says less. The rest is in sessions that earlier versions wrote: `results`
    are tool results that had to become text (call id, name, whether it was an error, whether it said anything), `files`
    what had to become a note (type, ref, media type, name), `names` and `wrapped` calls whose name or input changed.
    """

    role: str = ""
    made: bool = False
    lead: int = 0
    was: Any = None
    results: list[tuple[str, str, bool, bool]] | None = None
    files: list[tuple[str, str, str, str]] | None = None
    names: dict[str, str] | None = None
    wrapped: list[str] | None = None


def dump(value: Any) -> str:
    """A value as JSON text."""
    return msgspec.json.encode(value).decode("utf-8")
