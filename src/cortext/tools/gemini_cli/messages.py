"""Convert one record of Gemini CLI to messages: text, tool calls and tool results; without what was reported before."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

import msgspec

from cortext.model import clock
from cortext.model.message import (
    ASSISTANT,
    INSTRUCTIONS,
    SYSTEM,
    TEXT,
    TOOL,
    TOOL_CALL,
    TOOL_RESULT,
    USER,
    Message,
    Part,
    joined_text,
)
from cortext.tools.base import About, Counts
from cortext.tools.gemini_cli.records import (
    EDITOR_CONTEXT,
    HOOK_CONTEXT,
    LONG,
    NUDGES,
    SCRATCHPAD,
    SESSION_CONTEXT,
    SNAPSHOT,
    Mark,
    Record,
    RecordState,
    ToolCall,
    fingerprint,
    has_other_text,
    thinking_of,
)
from cortext.tools.shared.building import (
    ContentPart,
    FunctionCall,
    FunctionResponse,
    code_of,
    is_empty,
    media_of,
    parts_of,
    result_part,
    text_of,
)
from cortext.tools.shared.commands import RESUMED, typed_command
from cortext.tools.shared.lines import note


def moment(timestamp: str | None) -> str:
    """Return a timestamp in our format; empty if it is not a valid time."""
    if not timestamp:
        return ""
    # Gemini CLI already writes our format, so only the minute has to be checked, and that check is cached.
    if _SECONDS.fullmatch(timestamp, 16) and _is_minute(timestamp[:16]):
        return timestamp
    return clock.normalise(timestamp)


_SECONDS = re.compile(r":[0-5][0-9]\.[0-9]{3}Z")


@functools.lru_cache(maxsize=4096)
def _is_minute(text: str) -> bool:
    return clock.normalise(f"{text}:00Z") == f"{text}:00Z"


# ── the user ─────────────────────────────────────────────────────────────────────────────────────────


def bookkeeping(text: str) -> str:
    """Return which kind of text Gemini CLI wrote by itself; empty if the user or the model wrote it."""
    if text[:1] not in _FIRST_CHARACTERS:
        return ""
    beginning = text[:200].lstrip()
    for start, kind in _GENERATED_PREFIXES:
        if beginning.startswith(start):
            return kind
    if beginning.startswith(SCRATCHPAD) and SNAPSHOT in text:
        return COMPRESSED
    return NUDGES.get(text, "") if len(text) < 100 else ""


COMPRESSED = "compression summary"
_GENERATED_PREFIXES = (
    (SESSION_CONTEXT, "session context"),
    (SNAPSHOT, COMPRESSED),
    (EDITOR_CONTEXT, "editor context"),
    ("System: Potential loop detected.", "nudge to continue"),
)
_FIRST_CHARACTERS = " \t\r\n" + "".join({text[0] for text in [*NUDGES, *(start for start, _ in _GENERATED_PREFIXES)]})


def command_of(record: Record, text: str) -> str:
    """Return the slash command that expanded to this prompt; empty if none did."""
    if record.displayContent is not None:
        shown = text_of(parts_of(record.displayContent)).strip()
        if shown.startswith("/"):
            return shown
    return typed_command(text)


def expansion(record: Record, message: Message, text: str) -> Message | None:
    """Return what the user's own command expanded to; None if the message is none, or a command of ours."""
    typed = message.content
    if typed == text or not typed.startswith("/") or typed.startswith("/workspace.") or typed_command(text):
        return None
    name, extra = f"{record.id}/instructions", {INSTRUCTIONS: message.content.split(None, 1)[0]}
    return Message(role=SYSTEM, content=text, timestamp=message.timestamp, id=name, extra=extra)


def user_messages(record: Record, parts: Sequence[ContentPart], key: str) -> tuple[Message | None, Message | None]:
    """Return the user's message and our resume block, each None if absent.

    The message is the command as typed, not its expansion, and without the contexts that hooks added.
    """
    content_parts = [part for part in parts if part.functionResponse is None]
    added = [part.text for part in content_parts if part.text and part.text.startswith(HOOK_CONTEXT)]
    text = text_of([part for part in content_parts if part.text not in added] if added else content_parts)
    command = command_of(record, text)
    block = text if RESUMED in text else next((context for context in added if RESUMED in context), "")
    when = moment(record.timestamp)
    content = command or ("" if block and block is text else text)
    media = media_of(content_parts, f"{key}#{record.id}")
    message = injected = None
    if content or media:
        message = Message(role=USER, content=content, timestamp=when, id=record.id, parts=media or None)
    if block:
        name = f"{record.id}/block" if message else record.id
        extra = {"resume_block": True}
        injected = Message(role=USER, content=block, timestamp=when, id=name, aside=True, extra=extra)
    return message, injected


# ── the model ────────────────────────────────────────────────────────────────────────────────────────


def model_message(record: Record, text: str, parts: Sequence[ContentPart], key: str, when: str) -> Message | None:
    """Return the message with the model's text and thoughts; None if it only called tools."""
    kept = thinking_of(record, parts) if parts or record.thoughts else []
    if parts:
        code = code_of(parts)
        kept += [*code, *media_of(parts, f"{key}#{record.id}")]
        if code:  # code that the model executed is part of the text
            kept.insert(0, Part(type=TEXT, text=text))
            text = joined_text(kept)
    if not text and not kept:
        return None
    return Message(
        role=ASSISTANT,
        content=text,
        timestamp=when,
        id=record.id,
        parts=kept or None,
        model=record.model or "",
        usage=record.tokens,
        tokens=output_tokens(record),
    )


def output_tokens(record: Record) -> int | None:
    """Return the length of the answer in tokens, as counted by the provider."""
    count = record.tokens.get("output") if record.tokens else None
    return count if isinstance(count, int) else None


def plain_answer(record: Record, key: str, answers: dict[str, str]) -> tuple[list[Message], RecordState]:
    """Return all messages of an ordinary answer: text and thoughts, calls, and results that `answers` lacks.

    Equivalent to `model_message`, `calls_message` and `result_message`, inlined for speed: such answers are most of
    every transcript. A test compares the two.
    """
    name, when, model, usage = record.id, moment(record.timestamp), record.model or "", record.tokens
    text = record.content if type(record.content) is str else ""
    tokens = usage.get("output") if usage else None
    if type(tokens) is not int:
        tokens = None
    messages: list[Message] = []
    kept = thinking_of(record, ()) if record.thoughts else None
    record_state = RecordState(text if len(text) < LONG else fingerprint(text), bool(text or kept))
    if record_state.has_message:
        messages.append(
            Message(
                role=ASSISTANT,
                content=text,
                timestamp=when,
                id=name,
                parts=kept or None,
                model=model,
                usage=usage,
                tokens=tokens,
            )
        )
        usage = tokens = None  # reported once
    if not record.toolCalls:
        return messages, record_state
    calls = calls_of(record, ())
    record_state.calls = len(calls)
    parts = [Part(TOOL_CALL, "", call.id or "", call.name or "", call.args) for call in calls]
    calls_id = f"{name}/calls"
    messages.append(
        Message(role=ASSISTANT, timestamp=when, id=calls_id, parts=parts, model=model, usage=usage, tokens=tokens)
    )
    index = -1
    for call in calls:
        index += 1
        call_id = call.id or ""
        if call_id in answers:
            continue
        found = call.result
        answer = None
        if type(found) is list and len(found) == 1 and type(found[0]) is ContentPart and call.status == "success":
            answer = found[0].functionResponse
        output = None
        if answer is not None and answer.parts is None and type(answer.response) is dict and len(answer.response) == 1:
            output = answer.response.get("output")
        if type(output) is str:
            part = Part(TOOL_RESULT, "", "", call.name or "", None, call_id, output)
            at = moment(call.timestamp) or when
            result: Message | None = Message(role=TOOL, timestamp=at, id=f"{name}/result/{index}", parts=[part])
        else:
            result = result_message(call, f"{name}/result/{index}", key, when)
        if result is not None:
            answers[call_id] = result.id
            record_state.answered.append(call_id)
            messages.append(result)
    return messages, record_state


def calls_of(record: Record, parts: Sequence[ContentPart]) -> list[ToolCall]:
    """Return the tool calls of a record in order, each with an id, from its content and its `toolCalls`."""
    shown = record.toolCalls or []
    requested = [part.functionCall for part in parts if part.functionCall is not None] if parts else []
    if requested:
        by_id = {entry.id: entry for entry in shown}
        calls = [by_id.pop(call.id, ToolCall(call.id, call.name, call.args)) for call in requested]
        shown = [*calls, *by_id.values()]
    for index, entry in enumerate(shown):
        if not entry.id:
            entry.id = f"{record.id}/{index}"
    return shown


def calls_message(record: Record, calls: Sequence[ToolCall], name: str, when: str) -> Message:
    """Return a message with these tool calls."""
    parts = [Part(TOOL_CALL, "", call.id or "", call.name or "", call.args) for call in calls]
    return Message(role=ASSISTANT, timestamp=when, id=name, parts=parts, model=record.model or "")


def result_message(call: ToolCall, name: str, key: str, when: str) -> Message | None:
    """Return a tool's result as a message; None if there is none yet."""
    result = call.result
    when = moment(call.timestamp) or when
    if result is None or result == "" or result == []:
        return None
    first = result[0] if isinstance(result, list) else result
    answer = first.functionResponse if isinstance(first, ContentPart) else None
    more: Sequence[ContentPart] = ()
    if answer is None or (isinstance(result, list) and len(result) > 1):
        answer, more = _answer_to(call, parts_of(result))
    part = result_part(answer, more)
    part.call_id = call.id or ""
    part.name = call.name or part.name
    if call.status in ("error", "cancelled"):
        part.is_error = True
    kept = [part]
    if more or answer.parts:
        kept += media_of([*(answer.parts or ()), *more], f"{key}#{name}")
    return Message(role=TOOL, timestamp=when, id=name, parts=kept)


def _answer_to(call: ToolCall, parts: Sequence[ContentPart]) -> tuple[FunctionResponse, Sequence[ContentPart]]:
    """Return the result of this call: after a resume, Gemini CLI stores the results of all calls with each of them."""
    answers = [part.functionResponse for part in parts if part.functionResponse is not None]
    matching = [answer for answer in answers if answer.id == call.id] or [answer for answer in answers if not answer.id]
    more = [part for part in parts if part.functionResponse is None] if len(answers) <= 1 else []
    if answers:
        return (matching or answers)[0], more
    return FunctionResponse(id=call.id, name=call.name), more


# ── records that we wrote ────────────────────────────────────────────────────────────────────────────


def restored_message(record: Record, mark: Mark) -> Message | None:
    """Return our message from a record that we wrote; None if we added the record."""
    if mark.added:
        return None
    try:
        if original := mark.original():
            return msgspec.structs.replace(original, id=record.id, seq=-1, parent="")
    except msgspec.ValidationError:
        pass  # the annotation was edited: fall back to the record itself
    kept: list[Part] = []
    texts: list[str] = []
    for part in parts_of(record.content):
        if part.functionCall is not None:
            kept.append(_restored_call(part.functionCall, mark))
        elif part.functionResponse is not None:
            result = result_part(part.functionResponse)
            result.name = (mark.names or {}).get(result.call_id, result.name)
            kept.append(result)
        elif part.text and not part.thought:
            texts.append(part.text)
    del texts[: mark.lead]
    for call_id, name, is_error, answered in mark.results or ():
        output = texts[1] if answered and len(texts) > 1 else ""
        del texts[: 1 + answered]
        kept.append(Part(type=TOOL_RESULT, call_id=call_id, name=name, output=output, is_error=is_error))
    text = "".join(texts[: len(texts) - len(mark.files or ())])
    for kind, ref, media_type, name in mark.files or ():
        kept.append(Part(type=kind, ref=ref, media_type=media_type, name=name))
    if not text and not kept:
        return None
    role = mark.role or (USER if record.type == "user" else ASSISTANT)
    message = Message(role=role, content=text, timestamp=moment(record.timestamp), id=record.id, parts=kept or None)
    if role == ASSISTANT:
        message.model, message.usage, message.tokens = record.model or "", record.tokens, output_tokens(record)
    return message


def _restored_call(call: FunctionCall, mark: Mark) -> Part:
    call_id = call.id or ""
    value = call.args
    if call_id in (mark.wrapped or ()) and isinstance(value, dict):
        value = value.get("input")
    return Part(type=TOOL_CALL, id=call_id, name=(mark.names or {}).get(call_id, call.name or ""), input=value)


# ── what a record adds ────────────────────────────────────────────────────────────────────────────


class MessageBuilder:
    """What is known of a conversation so far, and the messages that a record adds; `Conversation` orders them."""

    def __init__(self, key: str, about: About, counts: Counts, *, aside: bool, remember_all: bool = False) -> None:
        self.key, self.about, self.counts, self.aside, self.remember_all = key, about, counts, aside, remember_all
        self._tip_moved = False  # whether the end may differ from the message reported last
        self._chain: dict[str, str] = {}  # the current records, each with its last message
        self._result_messages: dict[str, str] = {}  # call id: the message with its result
        self._call_messages: dict[str, str] = {}  # call id: the message with the call
        self._text_records: dict[int, str] = {}  # fingerprint of a text: the record that contains it
        self._only_call = ""  # the call of the newest record, if it is its only one and has a result

    def _written_by_us(self, record: Record, mark: Mark, record_state: RecordState) -> list[Message]:
        """Return the message of a record that we wrote."""
        if mark.added:
            note(self.counts.skipped, "added by cortext")
        message = None if record_state.has_message else restored_message(record, mark)
        if message is None:
            return []
        record_state.has_message = True
        for part in parts_of(record.content):
            if part.functionCall is not None:
                self._note_call(part.functionCall.id or "", part.functionCall.name or "", message.id)
            elif part.functionResponse is not None:
                self._result_messages[part.functionResponse.id or ""] = message.id
        if self.remember_all:
            self._remember(record, parts_of(record.content))
        return [message]

    def _user(self, record: Record, record_state: RecordState) -> list[Message]:
        parts = parts_of(record.content)
        text = text_of(parts)
        messages: list[Message] = []
        if len(parts) != 1 or not text:
            self._count_unknown(parts)
            messages = self._results(record, parts, record_state)
            if not text and not any(part.inlineData or part.fileData for part in parts):
                return messages
        kind = bookkeeping(text)
        if kind:
            note(self.counts.skipped, kind)
            self.about.notes += not self.aside
            if kind == COMPRESSED:
                self.about.summary = text[text.index(SNAPSHOT) :]
        elif not record_state.has_message or has_other_text(text, record_state):
            message, block = user_messages(record, parts, self.key)
            if message is not None:
                messages.append(self._versioned(record, message, text, record_state))
            if block is not None:
                messages.append(block)
            elif message is not None and (instructions := expansion(record, message, text)) is not None:
                messages.append(instructions)
            self.about.notes += sum(bool(part.text and part.text.startswith(HOOK_CONTEXT)) for part in parts)
            if self.remember_all:
                self._remember(record, parts)
        return messages

    def _model(self, record: Record, record_state: RecordState) -> list[Message]:
        content = record.content
        parts: Sequence[ContentPart] = ()
        if content is None or isinstance(content, str):
            text = content or ""
        else:
            parts = parts_of(content)
            text = text_of(parts)
            self._count_unknown(parts)
        kind = bookkeeping(text) if text else ""
        if kind:
            note(self.counts.skipped, kind)
            return []
        when = moment(record.timestamp)
        if record.model:
            self.about.model = record.model
        messages: list[Message] = []
        if not record_state.has_message or has_other_text(text, record_state):
            message = model_message(record, text, parts, self.key, when)
            if message is not None:
                messages.append(self._versioned(record, message, text, record_state))
                if self.remember_all:
                    self._remember(record, parts)
        if record.toolCalls or parts:
            self._add_calls(record, calls_of(record, parts), when, record_state, messages)
        return messages

    def _add_calls(
        self, record: Record, calls: list[ToolCall], when: str, record_state: RecordState, messages: list[Message]
    ) -> None:
        """Append the calls of a record that are new, and the results that it has by now."""
        if len(calls) > record_state.calls:
            new_calls = calls[record_state.calls :]
            name = f"{record.id}/calls/{record_state.calls}" if record_state.calls else f"{record.id}/calls"
            message = calls_message(record, new_calls, name, when)
            if not record_state.has_message and not record_state.calls:
                message.usage, message.tokens = record.tokens, output_tokens(record)
            record_state.calls = len(calls)
            for call in new_calls:
                self._note_call(call.id or "", call.name or "", name)
            messages.append(message)
        for index, call in enumerate(calls):
            call_id = call.id or ""
            if call_id not in self._result_messages:
                result = result_message(call, f"{record.id}/result/{index}", self.key, when)
                if result is not None:
                    self._result_messages[call_id] = result.id
                    record_state.answered.append(call_id)
                    messages.append(result)
        self._only_call = record_state.answered[0] if len(calls) == len(record_state.answered) == 1 else ""

    def _results(self, record: Record, parts: Sequence[ContentPart], record_state: RecordState) -> list[Message]:
        """Return tool results from a separate record: usually a second copy of what the call contains."""
        messages: list[Message] = []
        for index, part in enumerate(parts):
            answer = part.functionResponse
            if answer is not None:
                call_id = answer.id or f"{record.id}/{index}"
                if call_id in self._result_messages:
                    note(self.counts.skipped, "repeated tool result")
                    continue
                call = ToolCall(call_id, answer.name, result=part)
                result = result_message(call, f"{record.id}/result/{index}", self.key, moment(record.timestamp))
                if result is not None:
                    self._result_messages[call_id] = result.id
                    record_state.answered.append(call_id)
                    messages.append(result)
        return messages

    def _versioned(self, record: Record, message: Message, text: str, record_state: RecordState) -> Message:
        """Return the message of a record's text, as the first or as a new version of it."""
        if record_state.has_message:
            record_state.versions += 1
            message.id = f"{record.id}~{record_state.versions}"
            if next(reversed(self._chain)) == record.id:
                self._chain[record.id] = ""
                self._tip_moved = True
            else:
                message.aside = True  # the conversation went on since: keep this version beside it
        record_state.has_message = True
        record_state.text = text if len(text) < LONG else fingerprint(text)
        return message

    def _note_call(self, call_id: str, tool: str, message_id: str) -> None:
        if self.remember_all:
            self._call_messages[call_id] = message_id
        if tool and tool not in self.about.tools:
            self.about.tools.append(tool)

    def _remember(self, record: Record, parts: Sequence[ContentPart]) -> None:
        """Store the fingerprints of a record's text, to recognise it under another id."""
        content = record.content
        for text in [content] if isinstance(content, str) else [part.text for part in parts]:
            if text:
                self._text_records.setdefault(fingerprint(text), record.id)

    def _count_unknown(self, parts: Sequence[ContentPart]) -> None:
        for part in parts:
            if is_empty(part):
                note(self.counts.unknown, "part of unknown type")
