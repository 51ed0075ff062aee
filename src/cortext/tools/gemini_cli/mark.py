"""The annotation in the records that we write for Gemini CLI, and prefixes of the tool's own messages."""

from __future__ import annotations

import msgspec

from cortext.tools.shared import mark

# A user message with one of these prefixes was written by Gemini CLI or a hook, not by the user.
SESSION_CONTEXT = "<session_context>"
HOOK_CONTEXT = "<hook_context>"


class Mark(mark.Mark, omit_defaults=True):
    """How to restore our message from a record; `lead` counts the text parts that we put in front.

    The other fields occur in sessions that earlier versions wrote: `results` are tool results that became text (call
    id, name, whether it was an error, whether it had output), `files` are attachments that became a note (type, ref,
    media type, name), `names` and `wrapped` describe calls whose name or input was changed.
    """

    added: bool | str = msgspec.field(default=False, name="made")
    lead: int = 0
    results: list[tuple[str, str, bool, bool]] | None = None
    files: list[tuple[str, str, str, str]] | None = None
    names: dict[str, str] | None = None
    wrapped: list[str] | None = None
