"""What we note in the parts that we write for OpenCode, and the words that stand there for what it cannot take.

`Mark` is what we put into the `metadata` of parts that we write ourselves, and what our plugin puts there: it
survives OpenCode's strict schema, and reaches no model.
"""

from __future__ import annotations

import msgspec

from cortext.model.message import Part
from cortext.tools.shared import mark

MARK = "cortext"


class Mark(mark.Mark, omit_defaults=True):
    """Our own words about a part."""

    result: str = ""  # the message that the result of this call belongs to
    part: Part | None = None  # what stands here as a text
    notes: list[Part] = msgspec.field(default_factory=list)  # what stands as text notes at the end of a tool's output
    call: str = ""  # the call's own id, where it was changed
    name: str = ""  # the tool's own name, where it was changed
    wrapped: bool = False  # whether the call's input was no object
    command: str = ""  # the command that was typed, by our plugin
    arguments: str = ""


def note_text(part: Part) -> str:
    """An image or a file as words, for a tool that cannot be given it by reference."""
    about = ", ".join(word for word in (part.name, part.media_type, part.ref) if word)
    return f"[{part.type}: {about or 'not kept'}]"


def notes_text(parts: list[Part]) -> str:
    """What is put after a tool's output for the images that came with it."""
    return "".join("\n\n" + note_text(part) for part in parts)
