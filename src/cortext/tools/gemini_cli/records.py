"""The records that Gemini CLI writes, as far as we need them.

Only the declared fields are decoded: msgspec skips the rest without building it, inline images above all.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from typing import Any

import msgspec

from cortext.model.message import THINKING, Part
from cortext.tools.shared import native
from cortext.tools.shared.building import Content, ContentPart
from cortext.tools.shared.native import nth, values_of

# A user message with one of these prefixes was written by Gemini CLI or a hook, not by the user.
SESSION_CONTEXT = "<session_context>"
HOOK_CONTEXT = "<hook_context>"
SNAPSHOT = "<state_snapshot>"
SCRATCHPAD = "<scratchpad>"  # may precede the snapshot
# Messages that Gemini CLI itself writes as the user or the model.
NUDGES = {
    "System: Please continue.": "nudge to continue",
    "[The previous response was interrupted before it completed.]": "placeholder",
    "Got it. Thanks for the additional context!": "placeholder",
}
EDITOR_CONTEXT = "Here is the user's editor context"
# Record types that are shown on the screen and never sent to the model.
SCREEN_TYPES = frozenset({"info", "error", "warning"})
# A text of this length or more is remembered by its fingerprint alone.
LONG = 10_000
_COMMENTS = re.compile(r"<!--.*?-->", re.DOTALL)


class Mark(native.Mark, omit_defaults=True):
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


class Thought(msgspec.Struct, gc=False):
    subject: str | None = None
    description: str | None = None


class ToolCall(msgspec.Struct, gc=False):
    """A call with its result, as it is shown on the screen."""

    id: str | None = None
    name: str | None = None
    args: Any = None
    result: Content = None
    status: str | None = None
    timestamp: str | None = None


class Identity(msgspec.Struct, gc=False):
    """The id and type of a record: enough if the record was read before."""

    id: str = ""
    type: str = ""


class Record(msgspec.Struct, gc=False):
    """Any line of a transcript: a message, the session's metadata, or a change to what came before."""

    id: str = ""
    type: str = ""
    timestamp: str | None = None
    content: Content = None
    displayContent: Content = None
    thoughts: list[Thought] | None = None
    toolCalls: list[ToolCall] | None = None
    tokens: dict[str, Any] | None = None
    model: str | None = None
    cortext: Mark | None = None
    sessionId: str | None = None
    projectHash: str | None = None
    startTime: str | None = None
    summary: str | None = None
    kind: str | None = None
    messages: list[msgspec.Raw] | None = None
    changed: Change | None = msgspec.field(name="$set", default=None)
    rewind: str | None = msgspec.field(name="$rewindTo", default=None)


class Change(msgspec.Struct, gc=False):
    """What `$set` sets; `messages`, if present, replaces the whole history."""

    messages: list[msgspec.Raw] | None = None
    summary: str | None = None


class Document(msgspec.Struct, gc=False):
    """A session in the older format."""

    sessionId: str = ""
    startTime: str | None = None
    summary: str | None = None
    messages: list[Record] = []


record_decoder = msgspec.json.Decoder(Record)
document_decoder = msgspec.json.Decoder(Document)
head_decoder = msgspec.json.Decoder(Identity)


def thinking_of(record: Record, parts: Sequence[ContentPart]) -> list[Part]:
    """Return the model's thoughts, from the content parts or else from the `thoughts` field."""
    thoughts = [Part(type=THINKING, text=part.text) for part in parts if part.thought and part.text] if parts else []
    if thoughts:
        return thoughts
    for thought in record.thoughts or ():
        text = thought.description or ""
        if thought.subject:
            text = f"**{thought.subject}** {text}"
        if text:
            thoughts.append(Part(THINKING, text))
    return thoughts


def image_in(record: dict[str, Any], rest: list[str]) -> str | None:
    """Return the base64 of an image in a record: in its content, or in the result of one of its calls."""
    scope, number = record.get("content"), rest[-1]
    calls = record.get("toolCalls")
    if rest[0] == "result":
        if isinstance(calls, list) and len(rest) > 1 and rest[1].isdecimal() and int(rest[1]) < len(calls):
            scope = calls[int(rest[1])]
    elif isinstance(scope, list):
        scope = [part for part in scope if not (isinstance(part, dict) and "functionResponse" in part)]
    return nth((_data(part["inlineData"]) for part in values_of(scope, "inlineData")), number)


def _data(value: Any) -> str:
    return str(value.get("data") or "") if isinstance(value, dict) else ""


# ── what was reported of a record ─────────────────────────────────────────────────────────────────


class RecordState(msgspec.Struct, array_like=True, gc=False):
    """What has been reported of a record so far: its text (or the fingerprint), the number of calls, the results."""

    text: str | int = ""
    has_message: bool = False
    calls: int = 0
    versions: int = 0
    answered: list[str] = []


def has_other_text(text: str, record_state: RecordState) -> bool:
    """Whether a record whose text was reported now has a different one."""
    if not text or text == record_state.text:
        return False
    return fingerprint(text) != (
        record_state.text if isinstance(record_state.text, int) else fingerprint(record_state.text)
    )


def fingerprint(text: str) -> int:
    """Return a checksum of a text that ignores what Gemini CLI strips: comments and surrounding whitespace."""
    if "<!--" in text:
        text = _COMMENTS.sub("", text)
    text = text.strip()
    return zlib.crc32(f"{len(text)}\0{text[:500]}\0{text[-500:]}".encode("utf-8", "surrogatepass"))
