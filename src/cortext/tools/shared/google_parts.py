"""The content parts of Google's API, in which Gemini CLI and Qwen Code store what was said, and their conversion.

Only the declared fields are decoded: msgspec skips the rest without building it, inline images above all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from cortext.model.message import IMAGE, TEXT, TOOL_RESULT, Part


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
    """Return the text of these parts, joined as the programs join it."""
    if len(parts) == 1:
        return (parts[0].text or "") if not parts[0].thought else ""
    return "".join(part.text for part in parts if part.text and not part.thought)


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


def result_part(answer: FunctionResponse, more: Sequence[ContentPart] = ()) -> Part:
    """Return a response as a part; text in the parts after it is appended to its output."""
    output, is_error = output_of(answer.response)
    extra = text_of(more) if more else ""
    if extra and extra != output:
        output = f"{output}\n{extra}" if output else extra
    return Part(type=TOOL_RESULT, call_id=answer.id or "", name=answer.name or "", output=output, is_error=is_error)


def dump(value: Any) -> str:
    """Return a value as JSON text."""
    return msgspec.json.encode(value).decode("utf-8")
