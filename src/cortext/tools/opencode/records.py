"""OpenCode's records as it stores them: only the fields that we need; the rest is skipped undecoded.

We write `Mark` into the `metadata` of our parts, and our plugin into those of commands: it survives OpenCode's strict
schema, and is never sent to a model.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec

from cortext.model.message import Part
from cortext.tools.base import Counts
from cortext.tools.shared import native
from cortext.tools.shared.lines import note, place, value_of
from cortext.tools.shared.values import valid_fields

T = TypeVar("T", bound=msgspec.Struct)

STEP = "step-start"

PartRows = Iterable[tuple[str, bytes | msgspec.Raw]]
_EMPTY = msgspec.Raw(b"")
_generic = msgspec.json.Decoder()

# Parts that contain only OpenCode's bookkeeping.
SKIPPED = {kind.encode("ascii"): kind for kind in ("step-start", "step-finish", "snapshot", "patch", "retry", "agent")}
MARK = "cortext"


class Mark(native.Mark, omit_defaults=True):
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


class Metadata(msgspec.Struct, gc=False):
    """The `metadata` of a part or of a tool's state."""

    cortext: Mark | None = None
    interrupted: bool | None = None
    output: msgspec.Raw = _EMPTY


class PartTime(msgspec.Struct, gc=False):
    start: float | None = None
    end: float | None = None


class Attachment(msgspec.Struct, gc=False):
    mime: str = ""
    filename: str | None = None


class State(msgspec.Struct, gc=False):
    """The state of a tool call: pending, running, completed or error."""

    status: str = ""
    input: Any = None
    output: Any = None
    error: Any = None
    metadata: Metadata | None = None
    attachments: list[Attachment] | None = None
    time: PartTime | None = None


class TextRecord(msgspec.Struct, gc=False):
    """A part of type text or reasoning, with few fields, because most parts are one of these."""

    text: str = ""
    synthetic: bool | None = None
    ignored: bool | None = None
    metadata: Metadata | None = None


class ToolRecord(msgspec.Struct, gc=False):
    """A part of type tool."""

    tool: str = ""
    call: str = msgspec.field(default="", name="callID")
    state: State | None = None


class PartRecord(msgspec.Struct, gc=False):
    """A part of any type, from the table `part` or from a document (which includes its id)."""

    type: str = ""
    id: str = ""
    text: str = ""
    synthetic: bool | None = None
    ignored: bool | None = None
    metadata: Metadata | None = None
    tool: str = ""
    call: str = msgspec.field(default="", name="callID")
    state: State | None = None
    mime: str = ""
    filename: str | None = None
    url: msgspec.Raw = _EMPTY  # undecoded: it may be an image of megabytes
    command: str | None = None
    prompt: str = ""


class MessageTime(msgspec.Struct, gc=False):
    created: float | None = None
    completed: float | None = None


class MessageRecord(msgspec.Struct, gc=False):
    """A row of the table `message`, or the `info` of one in a document."""

    role: str = ""
    id: str = ""
    session: str = msgspec.field(default="", name="sessionID")
    time: MessageTime | None = None
    model: str = msgspec.field(default="", name="modelID")
    provider: str = msgspec.field(default="", name="providerID")
    summary: Any = None  # true for the summary of a compaction; anything else in a user's message
    error: Any = None
    tokens: dict[str, Any] | None = None
    cost: Any = None  # in dollars; 0 if OpenCode does not know the price


# The type of a part by its first bytes, and its decoder; None for bookkeeping.
_TYPE_FIRST = b'{"type":"'
_BY_KIND: dict[bytes, tuple[str, msgspec.json.Decoder[Any] | None]] = {
    b"text": ("text", msgspec.json.Decoder(TextRecord)),
    b"reasoning": ("reasoning", msgspec.json.Decoder(TextRecord)),
    b"tool": ("tool", msgspec.json.Decoder(ToolRecord)),
    **{kind: (name, None) for kind, name in SKIPPED.items()},
}
_part = msgspec.json.Decoder(PartRecord)
_message = msgspec.json.Decoder(MessageRecord)
_PROMPT_FIRST = b'{"role":"user"'
_FINISH_FIRST = b'{"reason":"'


class Records:
    """Decodes records, and counts those that cannot be decoded."""

    def __init__(self, path: str, counts: Counts) -> None:
        self.path = path
        self.counts = counts

    def message(self, identity: str, data: bytes | msgspec.Raw, created: int = 0) -> MessageRecord | None:
        """Return a message's record; None if it is damaged.

        A prompt is not decoded, because its `summary` may contain whole files; `created` is all that is needed of it.
        """
        if created and type(data) is bytes and data.startswith(_PROMPT_FIRST) and data.endswith(b"}"):
            return MessageRecord("user", time=MessageTime(created))
        try:
            return _message.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return self._leniently(identity, data, MessageRecord)

    def parts(self, rows: PartRows) -> list[tuple[str, str, Any]]:
        """Return the id, type and record of each part: a TextRecord, a ToolRecord or else a PartRecord.

        Bookkeeping and damage are counted and omitted, except for the start of a step after a tool call.
        """
        found: list[tuple[str, str, Any]] = []
        skipped, kinds = self.counts.skipped, _BY_KIND
        after_tool_call = False
        for row, data in rows:
            if type(data) is bytes and data.startswith(_TYPE_FIRST):
                known = kinds.get(data[9 : data.find(b'"', 9, 40)])
            elif type(data) is bytes and data.startswith(_FINISH_FIRST) and b'"type":"step-finish"' in data:
                known = kinds[b"step-finish"]
            else:
                known = None
            if known is not None:
                kind, decoder = known
                if decoder is None:
                    skipped[kind] = skipped.get(kind, 0) + 1
                    if after_tool_call and kind == STEP:
                        found.append((row, kind, None))
                    continue
                after_tool_call = after_tool_call or kind == "tool"
                try:
                    found.append((row, kind, decoder.decode(data)))
                    continue
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                    pass
            part = self._part(row, data)
            if part is None:
                continue
            after_tool_call = after_tool_call or part.type == "tool"
            if part.type.encode("utf-8", "replace") in SKIPPED:
                note(skipped, part.type)
                if after_tool_call and part.type == STEP:
                    found.append((row, STEP, None))
            elif part.type == "tool":
                found.append((row or part.id, "tool", ToolRecord(part.tool, part.call, part.state)))
            else:
                found.append((row or part.id, part.type, part))
        return found

    def _part(self, identity: str, data: bytes | msgspec.Raw) -> PartRecord | None:
        try:
            return _part.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return self._leniently(identity, data, PartRecord)

    def _leniently(self, identity: str, data: bytes | msgspec.Raw, kind: type[T]) -> T | None:
        try:
            value = _generic.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            value = value_of(data)
            if value is None:
                self._damaged("not JSON", identity)
                return None
        if not isinstance(value, dict):
            self._damaged("unexpected shape", identity)
            return None
        try:
            return msgspec.convert(value, kind, strict=False)
        except (msgspec.ValidationError, RecursionError):
            self._damaged("field of unexpected shape", identity)
            return valid_fields(value, kind)

    def _damaged(self, reason: str, identity: str) -> None:
        note(self.counts.damaged, reason)
        place(self.counts, f"{self.path}#{identity}", 0)


def plain_text(value: Any) -> str:
    """Return a tool's output or error as text, whatever its type."""
    if isinstance(value, str):
        return value
    return "" if value is None else msgspec.json.encode(value).decode("utf-8")


def note_text(part: Part) -> str:
    """Return a text for an image or a file, for a tool that does not accept references."""
    description = ", ".join(field for field in (part.name, part.media_type, part.ref) if field)
    return f"[{part.type}: {description or 'not kept'}]"


def notes_text(parts: list[Part]) -> str:
    """Return the text that follows a tool's output for the attachments that came with it."""
    return "".join("\n\n" + note_text(part) for part in parts)
