"""The records that Gemini CLI writes, as far as we need them, and functions that convert their contents.

Only the declared fields are decoded: msgspec skips the rest without building it, inline images above all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from cortext.model.message import IMAGE, TEXT, THINKING, Part
from cortext.tools.gemini_cli.mark import Mark, dump

# A user message with this prefix was written by Gemini CLI; `mark` has the other prefixes.
SNAPSHOT = "<state_snapshot>"
# Messages that Gemini CLI itself writes as the user or the model.
NUDGES = {
    "System: Please continue.": "nudge to continue",
    "[The previous response was interrupted before it completed.]": "placeholder",
    "Got it. Thanks for the additional context!": "placeholder",
}
EDITOR_CONTEXT = "Here is the user's editor context"
# Record types that are shown on the screen and never sent to the model.
SCREEN_TYPES = frozenset({"info", "error", "warning"})

_EMPTY = msgspec.Raw(b"")


class FunctionCall(msgspec.Struct, gc=False):
    id: str | None = None
    name: str | None = None
    args: Any = None


class InlineData(msgspec.Struct, gc=False):
    """Inline image, audio or document data: only its type is decoded, never its bytes."""

    mimeType: str | None = None


class FileData(msgspec.Struct, gc=False):
    fileUri: str | None = None
    mimeType: str | None = None


class FunctionResponse(msgspec.Struct, gc=False):
    id: str | None = None
    name: str | None = None
    response: Any = None
    parts: list[MediaPart] | None = None


class MediaPart(msgspec.Struct, gc=False):
    inlineData: InlineData | None = None
    fileData: FileData | None = None


class ContentPart(msgspec.Struct, gc=False):
    """One part of a content; the field that is set determines its kind."""

    text: str | None = None
    thought: Any = None
    functionCall: FunctionCall | None = None
    functionResponse: FunctionResponse | None = None
    inlineData: InlineData | None = None
    fileData: FileData | None = None
    executableCode: Any = None
    codeExecutionResult: Any = None


Content = list[ContentPart | str] | ContentPart | str | None


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


class Head(msgspec.Struct, gc=False):
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
head_decoder = msgspec.json.Decoder(Head)


def parts_of(content: Content) -> list[ContentPart]:
    """Return a content of any form as a list of parts."""
    if content is None:
        return []
    if isinstance(content, list):
        return [ContentPart(text=part) if isinstance(part, str) else part for part in content]
    if isinstance(content, str):
        return [ContentPart(text=content)] if content else []
    return [content]


def text_of(parts: Sequence[ContentPart]) -> str:
    """Return the text of these parts, joined as Gemini CLI joins it."""
    if len(parts) == 1:
        return (parts[0].text or "") if not parts[0].thought else ""
    return "".join(part.text for part in parts if part.text and not part.thought)


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


def media_of(parts: Sequence[ContentPart | MediaPart], base: str) -> list[Part]:
    """Return references to images and files; for inline data the reference is `base` and a number."""
    found: list[Part] = []
    for part in parts:
        if part.inlineData is not None:
            media_type = part.inlineData.mimeType or ""
            found.append(Part(type=_kind(media_type), ref=f"{base}/{len(found)}", media_type=media_type))
        elif part.fileData is not None:
            media_type = part.fileData.mimeType or ""
            found.append(Part(type=_kind(media_type), ref=part.fileData.fileUri or "", media_type=media_type))
    return found


def _kind(media_type: str) -> str:
    return IMAGE if not media_type or media_type.startswith("image/") else "file"


def code_of(parts: Sequence[ContentPart]) -> list[Part]:
    """Return code that the model executed on its server, and the output, as text parts."""
    found = []
    for part in parts:
        for value in (part.executableCode, part.codeExecutionResult):
            if isinstance(value, dict):
                text = value.get("code") or value.get("output") or ""
                found.append(Part(type=TEXT, text=str(text), data=value))
    return found


def is_empty(part: ContentPart) -> bool:
    """Whether no known field of the part is set."""
    return part == ContentPart() or part == ContentPart(thought=part.thought)


def output_of(response: Any) -> tuple[str, bool]:
    """Return a tool's response as text, and whether it was an error."""
    if isinstance(response, str):
        return response, False
    if not isinstance(response, dict):
        return ("" if response is None else dump(response)), False
    for key, is_error in (("output", False), ("error", True)):
        value = response.get(key)
        if value is not None and len(response) == 1:
            return (value if isinstance(value, str) else dump(value)), is_error
    return (dump(response) if response else ""), "error" in response and "output" not in response
