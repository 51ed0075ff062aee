"""OpenCode's records as it stores them: only the fields that we need, the rest is passed over undecoded.

`Mark` is what we put into the `metadata` of parts that we write ourselves, and what our plugin puts there: it
survives OpenCode's strict schema, and reaches no model.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from cortext.model.message import Part
from cortext.tools.base import Counts
from cortext.tools.foreign import note, place

T = TypeVar("T")

MARK = "cortext"
_NOTHING = msgspec.Raw(b"")
_generic = msgspec.json.Decoder()

# Parts that are the tool's own bookkeeping.
SKIPPED = {
    kind.encode("ascii"): kind for kind in ("step-start", "step-finish", "snapshot", "patch", "retry", "agent")
}


class Mark(msgspec.Struct, omit_defaults=True):
    """Our own words about a part."""

    id: str = ""  # the message that it belongs to
    result: str = ""  # the message that the result of this call belongs to
    role: str = ""  # where OpenCode has no such role
    added: bool = False  # said by us, so that OpenCode takes the rest
    timestamp: str = ""  # where it had to be changed
    part: Part | None = None  # what stands here as a text note
    command: str = ""  # the command that was typed, by our plugin
    arguments: str = ""


class Metadata(msgspec.Struct, gc=False):
    """The `metadata` of a part or of a tool's state."""

    cortext: Mark | None = None
    interrupted: bool | None = None
    output: msgspec.Raw = _NOTHING


class PartTime(msgspec.Struct, gc=False):
    start: float | None = None
    end: float | None = None


class Attachment(msgspec.Struct, gc=False):
    mime: str = ""
    filename: str | None = None


class State(msgspec.Struct, gc=False):
    """Where a tool call stands: pending, running, completed or error."""

    status: str = ""
    input: Any = None
    output: Any = None
    error: Any = None
    metadata: Metadata | None = None
    attachments: list[Attachment] | None = None
    time: PartTime | None = None


class TextRecord(msgspec.Struct, gc=False):
    """A part of type text or reasoning, in few fields: most parts are one of these."""

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
    """A part of any type, in the order of a row of the table `part` or of a document (which has its id inside)."""

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
    url: msgspec.Raw = _NOTHING  # may be an image of megabytes: never decoded whole
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
    summary: Any = None  # true at a compaction's summary; at a user's message something else
    error: Any = None
    tokens: dict[str, Any] | None = None


class PromptRecord(msgspec.Struct, gc=False):
    """A user's message in the one field that we need: its `summary` may hold whole files."""

    time: MessageTime | None = None


# What a part is, by its first bytes, and the decoder that fits; None for bookkeeping.
_TYPE_FIRST = b'{"type":"'
_BY_KIND: dict[bytes, tuple[str, msgspec.json.Decoder[Any] | None]] = {
    b"text": ("text", msgspec.json.Decoder(TextRecord)),
    b"reasoning": ("reasoning", msgspec.json.Decoder(TextRecord)),
    b"tool": ("tool", msgspec.json.Decoder(ToolRecord)),
    **{kind: (name, None) for kind, name in SKIPPED.items()},
}
_part = msgspec.json.Decoder(PartRecord)
_message = msgspec.json.Decoder(MessageRecord)
_prompt = msgspec.json.Decoder(PromptRecord)
_PROMPT_FIRST = b'{"role":"user"'


class Records:
    """Decodes records one after another, counting what cannot be decoded."""

    def __init__(self, path: str, counts: Counts) -> None:
        self.path = path
        self.counts = counts

    def message(self, identity: str, data: bytes | msgspec.Raw) -> MessageRecord | None:
        """A message's record; None where it is damaged."""
        try:
            if type(data) is bytes and data.startswith(_PROMPT_FIRST):
                return MessageRecord("user", time=_prompt.decode(data).time)
            return _message.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return self._leniently(identity, data, MessageRecord)

    def part(self, identity: str, data: bytes | msgspec.Raw) -> tuple[str, Any]:
        """The type of a part and its record: a TextRecord, a ToolRecord or else a PartRecord.

        None in place of the record where the part is bookkeeping (counted) or damaged (counted too).
        """
        if type(data) is bytes:
            known = _BY_KIND.get(data[9 : data.find(b'"', 9, 40)]) if data.startswith(_TYPE_FIRST) else None
            if known is not None:
                kind, decoder = known
                if decoder is None:
                    self.counts.skipped[kind] = self.counts.skipped.get(kind, 0) + 1
                    return known
                try:
                    return kind, decoder.decode(data)
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                    pass
            elif data.startswith(b'{"reason":"') and b'"type":"step-finish"' in data:
                note(self.counts.skipped, "step-finish")
                return "step-finish", None
        try:
            part = _part.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            found = self._leniently(identity, data, PartRecord)
            if found is None:
                return "", None
            part = found
        if part.type.encode("utf-8", "replace") in SKIPPED:
            note(self.counts.skipped, part.type)
            return part.type, None
        if part.type == "tool":
            return part.type, ToolRecord(part.tool, part.call or part.id, part.state)
        return part.type, part

    def _leniently(self, identity: str, data: bytes | msgspec.Raw, kind: type[T]) -> T | None:
        try:
            value = _generic.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return self._damaged("not JSON", identity)
        try:
            return msgspec.convert(value, kind, strict=False)
        except (msgspec.ValidationError, RecursionError):
            pass
        if not isinstance(value, dict):
            return self._damaged("unexpected shape", identity)
        # One field in another shape must not cost us the others: the strings are what we are after.
        plain = {name: item for name, item in value.items() if isinstance(item, str)}
        try:
            record = msgspec.convert(plain, kind)
        except msgspec.ValidationError:
            return self._damaged("unexpected shape", identity)
        self._damaged("field of unexpected shape", identity)
        return record

    def _damaged(self, reason: str, identity: str) -> None:
        note(self.counts.damaged, reason)
        place(self.counts, f"{self.path}#{identity}", 0)


def plain_text(value: Any) -> str:
    """A tool's output or error as text, whatever it was stored as."""
    if isinstance(value, str):
        return value
    return "" if value is None else msgspec.json.encode(value).decode("utf-8")
