"""The annotation in the parts that we write for OpenCode, and the text that replaces what it cannot store.

We write `Mark` into the `metadata` of our parts, and our plugin into those of commands: it survives OpenCode's strict
schema, and is never sent to a model.
"""

from __future__ import annotations

import msgspec

from cortext.model.message import Part
from cortext.tools.shared import mark

MARK = "cortext"


class Mark(mark.Mark, omit_defaults=True):
    """How to restore our message from a part."""

    result: str = ""  # the id of the message with the result of this call
    part: Part | None = None  # the part that this text replaces
    notes: list[Part] = msgspec.field(
        default_factory=list
    )  # attachments that became text at the end of a tool's output
    call: str = ""  # the original id of the call, if it was changed
    name: str = ""  # the original name of the tool, if it was changed
    wrapped: bool = False  # whether the call's input was not an object
    command: str = ""  # the command as typed, recorded by our plugin
    arguments: str = ""


def note_text(part: Part) -> str:
    """Return a text for an image or a file, for a tool that does not accept references."""
    description = ", ".join(field for field in (part.name, part.media_type, part.ref) if field)
    return f"[{part.type}: {description or 'not kept'}]"


def notes_text(parts: list[Part]) -> str:
    """Return the text that follows a tool's output for the attachments that came with it."""
    return "".join("\n\n" + note_text(part) for part in parts)
