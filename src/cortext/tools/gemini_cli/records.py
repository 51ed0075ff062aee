"""The records that Gemini CLI writes, as far as we need them, and what they hold in our words.

Only named fields are decoded: msgspec passes over the rest without building it (inline images above all).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from cortext.model.message import IMAGE, TEXT, THINKING, Part
from cortext.tools.gemini_cli.mark import Mark, dump

# A user message that begins so is the program's, as with those of gemini_cli_mark.
SNAPSHOT = "<state_snapshot>"
# What the program says in the user's or the model's name.
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
    """Image, sound or document bytes: only what they are, never the bytes."""

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
    """One part of a content; which field is set says what it is."""

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
    """A call with its answer, as it is shown on the screen."""

    id: str | None = None
    name: str | None = None
    args: Any = None
    result: Content = None
    status: str | None = None
    timestamp: str | None = None


class Head(msgspec.Struct, gc=False):
    """Which record it is: enough where the record is known already."""

    id: str = ""
    type: str = ""


class Record(msgspec.Struct, gc=False):
    """Any line of a transcript: a message, the session's own data, or a change to what came before."""

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
    """What `$set` sets; the whole list of messages, if it is there, replaces all that came before."""

    messages: list[msgspec.Raw] | None = None
    summary: str | None = None


class Document(msgspec.Struct, gc=False):
    """A whole session in the older form."""

    sessionId: str = ""
    startTime: str | None = None
    summary: str | None = None
    messages: list[Record] = []


record_decoder = msgspec.json.Decoder(Record)
document_decoder = msgspec.json.Decoder(Document)
head_decoder = msgspec.json.Decoder(Head)


def parts_of(content: Content) -> list[ContentPart]:
    """A content as a list of parts, whichever of its forms it has."""
    if content is None:
        return []
    if isinstance(content, list):
        return [ContentPart(text=part) if isinstance(part, str) else part for part in content]
    if isinstance(content, str):
        return [ContentPart(text=content)] if content else []
    return [content]


def text_of(parts: Sequence[ContentPart]) -> str:
    """The words of these parts, joined as the program itself joins them."""
    if len(parts) == 1:
        return (parts[0].text or "") if not parts[0].thought else ""
    return "".join(part.text for part in parts if part.text and not part.thought)


def thinking_of(record: Record, parts: Sequence[ContentPart]) -> list[Part]:
    """The model's thoughts, from wherever the record keeps them."""
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


def media_of(parts: Sequence[ContentPart | MediaPart], place: str) -> list[Part]:
    """Images and files by reference: `place` and a number for what lies in the transcript itself."""
    found: list[Part] = []
    for part in parts:
        if part.inlineData is not None:
            media_type = part.inlineData.mimeType or ""
            found.append(Part(type=_kind(media_type), ref=f"{place}/{len(found)}", media_type=media_type))
        elif part.fileData is not None:
            media_type = part.fileData.mimeType or ""
            found.append(Part(type=_kind(media_type), ref=part.fileData.fileUri or "", media_type=media_type))
    return found


def _kind(media_type: str) -> str:
    return IMAGE if not media_type or media_type.startswith("image/") else "file"


def code_of(parts: Sequence[ContentPart]) -> list[Part]:
    """Code that the model ran on its side, and what came out: kept as text."""
    found = []
    for part in parts:
        for value in (part.executableCode, part.codeExecutionResult):
            if isinstance(value, dict):
                text = value.get("code") or value.get("output") or ""
                found.append(Part(type=TEXT, text=str(text), data=value))
    return found


def is_empty(part: ContentPart) -> bool:
    """Whether a part holds nothing that we know of."""
    return part == ContentPart() or part == ContentPart(thought=part.thought)


def output_of(response: Any) -> tuple[str, bool]:
    """What a tool answered, as text, and whether it was an error."""
    if isinstance(response, str):
        return response, False
    if not isinstance(response, dict):
        return ("" if response is None else dump(response)), False
    for key, wrong in (("output", False), ("error", True)):
        value = response.get(key)
        if value is not None and len(response) == 1:
            return (value if isinstance(value, str) else dump(value)), wrong
    return (dump(response) if response else ""), "error" in response and "output" not in response
