"""A conversation in OpenCode's own form: which of its messages and parts ours become.

OpenCode keeps a tool's result with the call, knows no system messages, and refuses whatever does not fit its schema.
Every part bears a mark that says which message of ours it is, so that reading gives the same messages back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from cortext.model.message import (
    ASSISTANT,
    SYSTEM,
    TEXT,
    THINKING,
    TOOL,
    TOOL_CALL,
    TOOL_RESULT,
    USER,
    Message,
    Part,
    said,
)
from cortext.tools.opencode.mark import NOT_RECORDED, Mark, note_text, notes_text
from cortext.tools.shared.lines import derived_id, note

_BEGINS_WITH_ASSISTANT = "[The conversation that is continued here begins with the assistant.]"
_SYSTEM_LABEL = "[A system message of the earlier conversation, kept for the record:]"
_ORPHAN_LABEL = "[The result of a tool call that is not in this history:]"

Signature = tuple[str, str, tuple[Any, ...]]


class NativePart(msgspec.Struct):
    """A text, or a tool call with its result, and our mark."""

    mark: Mark
    text: str = ""
    tool: str = ""
    call: str = ""
    input: dict[str, Any] = {}
    output: str = ""
    failed: bool = False


class NativeMessage(msgspec.Struct):
    """One message of OpenCode's; `of` is ours, None where we had to add one."""

    role: str
    of: Message | None
    parts: list[NativePart] = []


class _Slot(msgspec.Struct):
    """A call, waiting for its result."""

    call: str
    result: Part | None = None
    of: Message | None = None


class _Answer(msgspec.Struct):
    """A tool's message as reading must give it: from which message of ours, under which id."""

    of: Message
    identity: str
    told: list[Any]


class Plan:
    """What a conversation becomes, what had to change, and what reading it must give back."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self.native: list[NativeMessage] = []
        self.expected: list[Signature] = []
        self.changed: dict[str, int] = {}
        self.messages = 0
        self.tool_calls = 0
        self._calls: set[str] = set()
        self._results: dict[str, int] = {}
        self._answered: set[int] = set()
        talk = [message for message in messages if self._is_talk(message)]
        self._slots, self._paired = _pair(talk)
        for message in talk:
            before = len(self.native)
            if message.role == ASSISTANT:
                self._assistant(message)
            elif message.role == TOOL:
                self._tool(message)
            else:
                self._user(message)
            self.messages += len(self.native) > before or id(message) in self._answered

    def _is_talk(self, message: Message) -> bool:
        if message.aside or message.partial:
            note(self.changed, "side agent's message left out" if message.aside else "cut reply left out")
            return False
        return True

    # ── roles ────────────────────────────────────────────────────────────────────────────────────────

    def _user(self, message: Message) -> None:
        parts = self._texts(message)
        if not parts:
            note(self.changed, "empty message left out")
            return
        if message.role == SYSTEM:
            note(self.changed, "system message as the user's")
            for part in parts:
                part.mark.role = SYSTEM
            parts.insert(0, NativePart(Mark(added=True), text=_SYSTEM_LABEL))
        self.native.append(NativeMessage(USER, message, parts))
        self.expected.append(_expected(message.role if message.role == SYSTEM else USER, message.id, parts))

    def _assistant(self, message: Message) -> None:
        slots = iter(self._slots.get(id(message), ()))
        parts: list[NativePart] = []
        answers: list[_Answer] = []
        for part in _parts_of(message):
            if part.type == TOOL_CALL:
                parts.append(self._call(part, message, next(slots), answers))
            else:
                parts += self._text(part, message)
        if not parts:
            note(self.changed, "empty message left out")
            return
        if not self.native:
            note(self.changed, "first user message added")
            added = NativePart(Mark(added=True), text=_BEGINS_WITH_ASSISTANT)
            self.native.append(NativeMessage(USER, None, [added]))
        self.native.append(NativeMessage(ASSISTANT, message, parts))
        self.expected.append(_expected(ASSISTANT, message.id, parts))
        self.expected += [(TOOL, answer.identity, tuple(answer.told)) for answer in answers]

    def _tool(self, message: Message) -> None:
        """What of a tool's message did not find its call: it becomes a text."""
        parts: list[NativePart] = []
        paired = self._paired.get(id(message), set())
        for part in _parts_of(message):
            if id(part) in paired or (paired and part.type not in (TEXT, TOOL_RESULT)):
                continue
            if part.type == TOOL_RESULT:
                note(self.changed, "result without a call as text")
                kept = msgspec.structs.replace(part, output="")
                parts.append(NativePart(Mark(id=message.id, role=TOOL, part=kept), text=self._clean(part.output)))
            else:
                made = self._text(part, message)
                for native in made:
                    native.mark.role = TOOL
                parts += made
        if not parts:
            return
        identity = self._result_id(message.id) if paired else message.id
        for native in parts:
            native.mark.id = identity
        parts.insert(0, NativePart(Mark(added=True), text=_ORPHAN_LABEL))
        self.native.append(NativeMessage(USER, message, parts))
        self.expected.append(_expected(TOOL, identity, parts))

    # ── parts ────────────────────────────────────────────────────────────────────────────────────────

    def _texts(self, message: Message) -> list[NativePart]:
        return [native for part in _parts_of(message) for native in self._text(part, message)]

    def _text(self, part: Part, message: Message) -> list[NativePart]:
        """A part as text; nothing where there is nothing to say."""
        if part.type == TEXT:
            return [NativePart(Mark(id=message.id), text=self._clean(part.text))] if part.text else []
        if part.type == THINKING:
            note(self.changed, "thinking dropped")
            return []
        if part.type == TOOL_CALL:  # one that is not the assistant's
            note(self.changed, "call of another role as text")
            words = f"[{part.name} {msgspec.json.encode(_clean_value(part.input)).decode('utf-8')}]"
            return [NativePart(Mark(id=message.id), text=self._clean(words))]
        if part.type == TOOL_RESULT:
            note(self.changed, "result without a call as text")
            return [NativePart(Mark(id=message.id), text=self._clean(part.output))] if part.output else []
        note(self.changed, f"{part.type} as a text note")
        return [NativePart(Mark(id=message.id, part=part), text=self._clean(note_text(part)))]

    def _call(self, part: Part, message: Message, slot: _Slot, answers: list[_Answer]) -> NativePart:
        self.tool_calls += 1
        mark = Mark(id=message.id)
        call = self._clean(part.id) or derived_id(message.id, self.tool_calls)
        while call in self._calls:
            mark.call = self._clean(part.id)
            call = f"{call}-{len(self._calls)}"
        if mark.call:
            note(self.changed, "repeated call id renamed")
        self._calls.add(call)
        given = _clean_value(part.input)
        if not isinstance(given, dict):
            mark.wrapped = given is not None
            given = {"input": given} if mark.wrapped else {}
            note(self.changed, "call's input made an object")
        native = NativePart(mark, tool=self._clean(part.name) or "unnamed", call=call, input=given)
        if slot.result is None or slot.of is None:
            note(self.changed, "missing result filled in")
            mark.added = True
            native.output = NOT_RECORDED
            return native
        native.failed = slot.result.is_error
        self._answer(native, slot.of, slot.result, mark.call or call, answers)
        return native

    def _answer(self, native: NativePart, message: Message, result: Part, call: str, answers: list[_Answer]) -> None:
        """Put a result to its call; results of one message that lie side by side stay one message."""
        mark = native.mark
        if id(message) not in self._answered:
            self._answered.add(id(message))
            # Images in a tool's message belong to no result: they go with the first.
            mark.notes = [part for part in message.parts or () if part.type not in (TEXT, TOOL_RESULT, THINKING)]
        for part in mark.notes:
            note(self.changed, f"{part.type} as a text note")
        if not answers or answers[-1].of is not message:
            answers.append(_Answer(message, self._result_id(message.id), []))
        mark.result = answers[-1].identity
        output = self._clean(result.output)
        native.output = output + self._clean(notes_text(mark.notes))
        answers[-1].told.append((TOOL_RESULT, call, output, native.failed))
        answers[-1].told += [("note", part.ref) for part in mark.notes]

    def _result_id(self, identity: str) -> str:
        """The id of a tool's message; a second time, when its results lie apart, another one."""
        self._results[identity] = self._results.get(identity, 0) + 1
        return identity if not identity or self._results[identity] == 1 else f"{identity}.{self._results[identity]}"

    def _clean(self, text: str) -> str:
        cleaned = clean(text)
        if cleaned is not text:
            note(self.changed, "broken characters replaced")
        return cleaned


def _pair(talk: Sequence[Message]) -> tuple[dict[int, list[_Slot]], dict[int, set[int]]]:
    """The calls of each message with their results, and the parts of tools' messages that are results of a call."""
    slots: dict[int, list[_Slot]] = {}
    waiting: dict[str, list[_Slot]] = {}
    paired: dict[int, set[int]] = {}
    for message in talk:
        for part in message.parts or ():
            if part.type == TOOL_CALL and message.role == ASSISTANT:
                slot = _Slot(part.id)
                slots.setdefault(id(message), []).append(slot)
                waiting.setdefault(part.id, []).append(slot)
            elif part.type == TOOL_RESULT and message.role == TOOL and waiting.get(part.call_id):
                slot = waiting[part.call_id].pop(0)
                slot.result, slot.of = part, message
                paired.setdefault(id(message), set()).add(id(part))
    return slots, paired


def _parts_of(message: Message) -> list[Part]:
    """The parts, with what was said as one of them."""
    parts = list(message.parts or ())
    words = message.content
    # A tool's words may be told twice: as what it said, and as the result.
    if words and not (words in said(parts) or any(part.type == TOOL_RESULT and words in part.output for part in parts)):
        parts.insert(0, Part(TEXT, words))
    return parts


def _expected(role: str, identity: str, parts: Sequence[NativePart]) -> Signature:
    """What reading must give for these parts."""
    told: list[Any] = []
    for part in parts:
        if part.tool:
            told.append((TOOL_CALL, part.mark.call or part.call, part.tool))
        elif part.mark.added:
            continue
        elif part.mark.part is None:
            told.append((TEXT, part.text))
        elif part.mark.part.type == TOOL_RESULT:
            told.append((TOOL_RESULT, part.mark.part.call_id, part.text, part.mark.part.is_error))
        else:
            told.append(("note", part.mark.part.ref))
    return role, identity, tuple(told)


def signature(message: Message) -> Signature:
    """The same of a message that was read."""
    told: list[Any] = []
    for part in message.parts or ([Part(TEXT, message.content)] if message.content else []):
        if part.type == TOOL_CALL:
            told.append((TOOL_CALL, part.id, part.name))
        elif part.type == TOOL_RESULT:
            told.append((TOOL_RESULT, part.call_id, part.output, part.is_error))
        elif part.type == TEXT:
            told.append((TEXT, part.text))
        else:
            told.append(("note", part.ref))
    return message.role, message.id, tuple(told)


def clean(text: str) -> str:
    """The text itself, or without halves of characters that no file could hold."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _clean_value(value: Any) -> Any:
    """A call's input as JSON can hold it."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, dict):
        return {clean(str(name)): _clean_value(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_clean_value(item) for item in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)
    return value if value is None or isinstance(value, bool | int | float) else str(value)
