"""The turns of a conversation in OpenCode's format.

OpenCode stores a tool's result with the call, has no system messages, and rejects whatever does not match its schema.
Every part is annotated with the message it comes from, so that reading returns the same messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from cortext.model.message import TEXT, TOOL, TOOL_CALL, TOOL_RESULT, USER, Message, Part, Picture
from cortext.model.turns import Call, Image, Text, Turn, Turns
from cortext.tools.opencode.mark import Mark, notes_text

Signature = tuple[str, str, tuple[Any, ...]]


class NativePart(msgspec.Struct):
    """A text, or a tool call with its result, and our annotation."""

    mark: Mark
    text: str = ""
    tool: str = ""
    call: str = ""
    input: dict[str, Any] = {}
    output: str = ""
    failed: bool = False
    picture: Picture | None = None  # an image that follows the text


class NativeMessage(msgspec.Struct):
    """One message of OpenCode; `of` is the message it comes from, None if it was added."""

    role: str
    of: Message | None
    parts: list[NativePart]


class _Answer(msgspec.Struct):
    """A tool message as it will be read back: the message it comes from, its id and its parts."""

    of: Message
    identity: str
    part_signatures: list[Any]


class Rendering:
    """What to write for a sequence of messages, what had to change, and what reading must return."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self.normal = Turns(messages, images_in=(USER,))
        self._results = self.normal.results
        self._times_read: dict[str, int] = {}
        # OpenCode has no field for images and files that came with results: the first result mentions them as text.
        self._notes = {turn.results[0].call.id: _attachments(turn) for turn in self.normal.turns if turn.results}
        self.native: list[NativeMessage] = []
        self.expected: list[Signature] = []
        for turn in self.normal.turns:
            self._add(turn)

    def _add(self, turn: Turn) -> None:
        message, attachments = turn.message, _attachments(turn) if turn.results else []
        identity = message.id if message is not None else ""
        texts = [text for text in turn.texts if not any(text.part is part for part in attachments)]
        if turn.results and texts:
            identity = self._identity(identity)  # its results are read back as a separate message
        answers: list[_Answer] = []
        parts: list[NativePart] = []
        for block in turn.blocks:
            if isinstance(block, Call):
                parts.append(self._call(block, identity, answers))
            elif isinstance(block, Text) and any(block is text for text in texts):
                parts += _text(block, turn, identity)
        if not parts:
            return
        self.native.append(NativeMessage(turn.role, message, parts))
        if message is not None:
            part_signatures = tuple(_expected_signature(part) for part in parts if part.tool or not part.mark.added)
            self.expected.append((message.role, identity, part_signatures))
        self.expected += [(TOOL, answer.identity, tuple(answer.part_signatures)) for answer in answers]

    def _call(self, call: Call, identity: str, answers: list[_Answer]) -> NativePart:
        mark = Mark(id=identity)
        mark.call = call.part.id if call.part.id != call.id else ""
        mark.name = call.part.name if call.part.name != call.name else ""
        mark.wrapped = call.part.input is not None and not isinstance(call.part.input, dict)
        native = NativePart(mark, tool=call.name, call=call.id, input=call.input)
        result = self._results[call.id]
        if result.message is None:
            mark.added = True
            native.output = result.output
            return native
        mark.notes = self._notes.get(call.id, [])
        if not answers or answers[-1].of is not result.message:
            answers.append(_Answer(result.message, self._identity(result.message.id), []))
        mark.result = answers[-1].identity
        native.failed = result.is_error
        native.output = result.output + notes_text(mark.notes)
        answers[-1].part_signatures.append((TOOL_RESULT, mark.call or call.id, result.output, result.is_error))
        answers[-1].part_signatures += [("note", part.ref) for part in mark.notes]
        return native

    def _identity(self, identity: str) -> str:
        """Return the id under which a tool message is read back: a new one each time, if its results are apart."""
        self._times_read[identity] = count = self._times_read.get(identity, 0) + 1
        return identity if not identity or count == 1 else f"{identity}.{count}"


def _attachments(turn: Turn) -> list[Part]:
    """Return the images and files in a turn."""
    parts = (text.part for text in turn.texts if text.part is not None)
    return [part for part in parts if part.type not in (TEXT, TOOL_CALL, TOOL_RESULT)]


def _text(text: Text, turn: Turn, identity: str) -> Iterator[NativePart]:
    if turn.message is None:
        yield NativePart(Mark(added=True), text=text.whole)
        return
    mark = Mark(id=identity, role=turn.message.role if turn.message.role != turn.role else "")
    if text.part is not None and (text.text or text.part.type == TOOL_RESULT):
        yield NativePart(Mark(added=True), text=text.label)
        if text.part.type == TOOL_RESULT:
            mark.part = msgspec.structs.replace(text.part, output="")  # the text is the output
        elif text.part.type != TEXT:
            mark.part = text.part
        yield NativePart(mark, text=text.text)
        return
    mark.part = text.part
    yield NativePart(mark, text=text.whole, picture=text.picture if isinstance(text, Image) else None)


def _expected_signature(part: NativePart) -> tuple[Any, ...]:
    """Return the signature of a part as it will be read back."""
    if part.tool:
        return TOOL_CALL, part.mark.call or part.call, part.mark.name or part.tool
    if part.mark.part is None:
        return TEXT, part.text
    if part.mark.part.type == TOOL_RESULT:
        return TOOL_RESULT, part.mark.part.call_id, part.text, part.mark.part.is_error
    return _part_signature(part.mark.part)


def signature(message: Message) -> Signature:
    """Return what must be equal between a message that was written and the one that was read back."""
    parts = message.parts or ([Part(TEXT, message.content)] if message.content else [])
    return message.role, message.id, tuple(_part_signature(part) for part in parts)


def _part_signature(part: Part) -> tuple[Any, ...]:
    if part.type == TOOL_CALL:
        return TOOL_CALL, part.id, part.name
    if part.type == TOOL_RESULT:
        return TOOL_RESULT, part.call_id, part.output, part.is_error
    return (TEXT, part.text) if part.type == TEXT else ("note", part.ref)
