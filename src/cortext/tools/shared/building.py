"""Building messages from parts, and parts from content blocks: those of Anthropic's API, which many tools keep, and of
Google's.

Of Google's parts only the declared fields are decoded: msgspec skips the rest without building it, inline images above
all.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any

import msgspec

from cortext.model.message import (
    FILE,
    IMAGE,
    TEXT,
    THINKING,
    TOOL,
    TOOL_CALL,
    TOOL_RESULT,
    Message,
    Part,
    joined_text,
)
from cortext.model.turns import Block, Call, Difference, Result, Turns, one_line
from cortext.tools.base import About, Counts
from cortext.tools.shared.lines import derived_id, note
from cortext.tools.shared.values import field, word

_CALLS = ("tool_use", "server_tool_use", "mcp_tool_use")
_SKIPPED = ("redacted_thinking", "token_budget", "cache_edits", "flag")


def note_tools(about: About, message: Message) -> None:
    """Add the names of the tools that a message calls to what is known about the conversation."""
    for part in message.parts or ():
        if part.type == TOOL_CALL and part.name not in about.tools:
            about.tools.append(part.name)


class MessageBuilder:
    """Builds the messages of one conversation; it knows which tools were called."""

    def __init__(self, about: About, counts: Counts) -> None:
        self.about, self.counts = about, counts
        self.open_calls: dict[str, str] = {}  # calls without a result yet, and the names of their tools
        self._derived: dict[str, int] = {}

    def identity(self, *parts: str) -> str:
        """Return an id for a record without one: derived from its content, and how often that came before."""
        found = derived_id(*parts)
        repeated = self._derived[found] = self._derived.get(found, -1) + 1
        return f"{found}.{repeated}" if repeated else found

    def messages(self, parts: list[Part], *, role: str, identity: str, **fields: Any) -> list[Message]:
        """Return the messages of one record: the results of calls are messages of their own.

        The first gets the record's id, and what was measured for the whole record (`usage`, `tokens`).
        """
        messages: list[Message] = []
        for is_result, group in groupby(parts, lambda part: part.type == TOOL_RESULT):
            found = list(group)
            for part in found:
                self._note_tool(part)
            is_plain = all(part.type == TEXT for part in found)
            message = Message(
                role=TOOL if is_result else role,
                content=joined_text(found),
                id=f"{identity}/{len(messages)}" if messages else identity,
                parts=None if is_plain else found,
                **fields,
            )
            messages.append(message)
            for name in ("usage", "tokens", "parent"):
                fields.pop(name, None)
        return messages

    def _note_tool(self, part: Part) -> None:
        if part.type == TOOL_CALL:
            self.open_calls[part.id] = part.name
            if part.name and part.name not in self.about.tools:
                self.about.tools.append(part.name)
        elif part.type == TOOL_RESULT:
            part.name = self.open_calls.pop(part.call_id, "") or part.name

    def parts(self, content: Any, reference: str) -> list[Part]:
        """Return the parts of a message's content, a text or a list of blocks; raise TypeError if it is neither.

        `reference` names the message.
        """
        if isinstance(content, str):
            return [Part(TEXT, text=content)] if content else []
        if not isinstance(content, list):
            raise TypeError("neither text nor blocks")
        found: list[Part] = []
        for number, block in enumerate(content):
            if isinstance(block, str):
                found.append(Part(TEXT, text=block))
            else:
                found.extend(self._block(block, f"{reference}/{number}"))
        return found

    def _block(self, block: Any, reference: str) -> Iterator[Part]:
        kind = word(block, "type")
        if kind == "text":
            if text := word(block, "text"):
                yield Part(TEXT, text=text)
        elif kind in ("thinking", "reasoning"):
            if text := word(block, "thinking") or word(block, "text"):
                yield Part(THINKING, text=text)
        elif kind in _CALLS:
            yield Part(TOOL_CALL, id=word(block, "id"), name=word(block, "name"), input=field(block, "input"))
        elif kind == "tool_result" or kind.endswith("_tool_result"):
            yield from self._result(block, reference)
        elif kind == "image":
            yield image(block, reference)
        elif kind in ("document", "file"):
            name = word(block, "title") or word(block, "path") or word(block, "name")
            media = word(block, "source", "media_type")
            yield Part(FILE, ref=reference, name=name, media_type=media, text=word(block, "content"))
        elif kind in _SKIPPED:
            note(self.counts.skipped, kind)
        else:
            note(self.counts.unknown, f"block {kind}" if kind else "block without type")

    def _result(self, block: Any, reference: str) -> Iterator[Part]:
        content = field(block, "content")
        output, images = output_of(content, reference)
        call = word(block, "tool_use_id")
        yield Part(TOOL_RESULT, call_id=call, name=word(block, "name"), output=output, is_error=is_error(block))
        yield from images


def is_error(block: Any) -> bool:
    """Whether the result of a call is marked as an error."""
    return field(block, "is_error") is True or field(block, "isError") is True


def output_of(content: Any, reference: str) -> tuple[str, list[Part]]:
    """Return the text of a call's result, and the images in it."""
    if isinstance(content, str):
        return content, []
    texts: list[str] = []
    images: list[Part] = []
    for number, item in enumerate(content if isinstance(content, list) else [] if content is None else [content]):
        if isinstance(item, str):
            texts.append(item)
        elif word(item, "type") == "image":
            images.append(image(item, f"{reference}/{number}"))
        else:
            texts.append(word(item, "text") or json.dumps(item, ensure_ascii=False))
    return "\n".join(texts), images


def image(block: Any, reference: str) -> Part:
    """Return an image by reference: its data stays in the copy of the transcript."""
    media = word(block, "source", "media_type") or word(block, "mimeType") or word(block, "mediaType")
    return Part(IMAGE, ref=word(block, "source", "url") or reference, media_type=media)


# ── a conversation as plain texts ──────────────────────────────────────────────────────────────────


class PlainTurn(msgspec.Struct):
    """What one message becomes; `message` is None if it was added."""

    role: str  # user or assistant
    text: str
    message: Message | None


def plain_turns(normal: Turns) -> list[PlainTurn]:
    """Return the turns as texts, and count in `normal` how many calls were turned into text."""
    if normal.tool_calls:
        normal.note(Difference.CALLS_AS_TEXT, normal.tool_calls)
    return [PlainTurn(turn.role, "\n\n".join(map(_text, turn.blocks)), turn.message) for turn in normal.turns]


def _text(block: Block) -> str:
    """Return a block as text. The call's id is in both labels, because a tool may be called several times at once."""
    if isinstance(block, Call):
        return f"[call of {one_line(block.name)} ({block.id})]\n{json.dumps(block.input, ensure_ascii=False)}"
    if isinstance(block, Result):
        failed = ", which failed" if block.is_error else ""
        label = f"[result of the call of {one_line(block.call.name)} ({block.call.id}){failed}, not the user's words]"
        return f"{label}\n{block.output}" if block.output else label
    return block.whole


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


def _output_of_function(response: Any) -> tuple[str, bool]:
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
    output, is_error = _output_of_function(answer.response)
    extra = text_of(more) if more else ""
    if extra and extra != output:
        output = f"{output}\n{extra}" if output else extra
    return Part(type=TOOL_RESULT, call_id=answer.id or "", name=answer.name or "", output=output, is_error=is_error)


def dump(value: Any) -> str:
    """Return a value as JSON text."""
    return msgspec.json.encode(value).decode("utf-8")
