"""One record of Gemini CLI as messages of ours: what was said, called and answered in it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from cortext.model import clock
from cortext.model.message import ASSISTANT, TEXT, TOOL, TOOL_CALL, TOOL_RESULT, USER, Message, Part
from cortext.tools.gemini_cli_records import (
    EDITOR_CONTEXT,
    HOOK_CONTEXT,
    NUDGES,
    SESSION_CONTEXT,
    SNAPSHOT,
    ContentPart,
    FunctionCall,
    FunctionResponse,
    Mark,
    Record,
    ToolCall,
    code_of,
    media_of,
    output_of,
    parts_of,
    text_of,
    thinking_of,
)

RESUMED = "[RESUMED CONVERSATION]"
# How our command files name themselves in the prompt that they become: the program shows hooks only that.
COMMAND_MARK = re.compile(r"<!-- cortext:command /?([\w.:-]+) -->(.*?)<!-- cortext:end -->", re.DOTALL)


class Call(msgspec.Struct):
    """A tool call of a record, with its answer where the record has it."""

    id: str
    name: str
    input: Any
    answer: FunctionResponse | None = None
    more: Sequence[ContentPart] = ()
    failed: bool = False
    timestamp: str = ""


def moment(timestamp: str | None) -> str:
    """A time in our spelling; empty where it is none."""
    return clock.normalise(timestamp) if timestamp else ""


# ── the user ─────────────────────────────────────────────────────────────────────────────────────────


def bookkeeping(words: str) -> str:
    """What kind of text of the program's own this is; empty where somebody said it."""
    begin = words[:200].lstrip()
    if begin.startswith(SESSION_CONTEXT):
        return "session context"
    if begin.startswith(SNAPSHOT):
        return "compression summary"
    if begin.startswith(EDITOR_CONTEXT):
        return "editor context"
    if begin.startswith("System: Potential loop detected."):
        return "nudge to continue"
    return NUDGES.get(words, "")


def typed_command(record: Record, words: str) -> str:
    """The slash command that the user typed to get this prompt, or nothing."""
    shown = text_of(parts_of(record.displayContent)).strip()
    if shown.startswith("/"):
        return shown
    mark = COMMAND_MARK.search(words)
    return f"/{mark[1]} {mark[2].strip()}".rstrip() if mark else ""


def user_messages(record: Record, parts: Sequence[ContentPart], key: str) -> Iterator[Message]:
    """What the user said: the typed command rather than what it became, and without what hooks added."""
    own = [part for part in parts if part.functionResponse is None]
    added = [part.text for part in own if part.text and part.text.startswith(HOOK_CONTEXT)]
    words = text_of([part for part in own if not (part.text and part.text.startswith(HOOK_CONTEXT))])
    command = typed_command(record, words)
    block = next((text for text in added if RESUMED in text), "")
    if RESUMED in words:
        block = words
    when = moment(record.timestamp)
    content = command or ("" if block is words else words)
    media = media_of(own, f"{key}#{record.id}")
    if content or media:
        yield Message(role=USER, content=content, timestamp=when, id=record.id, parts=media or None)
    if block:
        name = f"{record.id}/block" if content or media else record.id
        extra = {"resume_block": True}
        yield Message(role=USER, content=block, timestamp=when, id=name, aside=True, extra=extra)


# ── the model ────────────────────────────────────────────────────────────────────────────────────────


def model_message(record: Record, parts: Sequence[ContentPart], key: str) -> Message | None:
    """What the model said and thought; None where it only called tools."""
    words = text_of(parts)
    kept = [*thinking_of(record, parts), *code_of(parts), *media_of(parts, f"{key}#{record.id}")]
    if not words and not kept:
        return None
    message = Message(role=ASSISTANT, content=words, timestamp=moment(record.timestamp), id=record.id)
    if any(part.type == TEXT for part in kept):
        kept.insert(0, Part(type=TEXT, text=words))
        message.content = "\n\n".join(part.text for part in kept if part.type == TEXT and part.text)
    message.parts = kept or None
    return measured(message, record)


def measured(message: Message, record: Record) -> Message:
    """The message with the model's name and the provider's own count."""
    message.model = record.model or ""
    if record.tokens:
        message.usage = record.tokens
        output = record.tokens.get("output")
        message.tokens = output if isinstance(output, int) else None
    return message


def calls_of(record: Record, parts: Sequence[ContentPart]) -> list[Call]:
    """The tool calls of a record in order, from either of the two places where they are kept."""
    shown = record.toolCalls or ()
    calls = [
        Call(part.functionCall.id or f"{record.id}/{place}", part.functionCall.name or "", part.functionCall.args)
        for place, part in enumerate(part for part in parts if part.functionCall is not None)
        if part.functionCall is not None
    ]
    known = {call.id: call for call in calls}
    for place, entry in enumerate(shown):
        call = known.get(entry.id or "")
        if call is None:
            call = Call(entry.id or f"{record.id}/{place}", entry.name or "", entry.args)
            calls.append(call)
        _add_answer(call, entry)
    return calls


def _add_answer(call: Call, entry: ToolCall) -> None:
    """Find the call's own answer: after a resume the program puts the answers of all calls with each."""
    call.timestamp = moment(entry.timestamp)
    call.failed = entry.status in ("error", "cancelled")
    if entry.result is None:
        return
    if isinstance(entry.result, str):
        call.answer = FunctionResponse(id=call.id, name=call.name, response=entry.result)
        return
    parts = parts_of(entry.result)
    answers = [part.functionResponse for part in parts if part.functionResponse is not None]
    own = [answer for answer in answers if answer.id == call.id] or [answer for answer in answers if not answer.id]
    if own or answers:
        call.answer = (own or answers)[0]
    elif parts:
        call.answer = FunctionResponse(id=call.id, name=call.name, response=text_of(parts))
    if len(answers) <= 1:
        call.more = [part for part in parts if part.functionResponse is None]


def calls_message(record: Record, calls: Sequence[Call], name: str) -> Message:
    """A message of tool calls."""
    parts = [Part(type=TOOL_CALL, id=call.id, name=call.name, input=call.input) for call in calls]
    when = moment(record.timestamp)
    return Message(role=ASSISTANT, timestamp=when, id=name, parts=parts, model=record.model or "")


def result_message(call: Call, name: str, key: str, when: str = "") -> Message | None:
    """A tool's answer as a message; None while there is none."""
    if call.answer is None:
        return None
    part, media = result_part(call.answer, call.more, f"{key}#{name}")
    part.call_id, part.name = call.id, call.name or part.name
    part.is_error = part.is_error or call.failed
    return Message(role=TOOL, timestamp=call.timestamp or when, id=name, parts=[part, *media])


def result_part(answer: FunctionResponse, more: Sequence[ContentPart], place: str) -> tuple[Part, list[Part]]:
    """An answer as a part, and the images that came with it, by reference."""
    output, wrong = output_of(answer.response)
    extra = text_of(more)
    if extra and extra != output:
        output = f"{output}\n{extra}" if output else extra
    part = Part(type=TOOL_RESULT, call_id=answer.id or "", name=answer.name or "", output=output, is_error=wrong)
    return part, media_of([*(answer.parts or ()), *more], place)


# ── what we wrote ourselves ──────────────────────────────────────────────────────────────────────────


def own_message(record: Record, mark: Mark, key: str) -> Message | None:
    """Our message back out of a record that we wrote: one record, one message."""
    if mark.made:
        return None
    kept: list[Part] = []
    texts: list[str] = []
    for part in parts_of(record.content):
        if part.functionCall is not None:
            kept.append(_own_call(part.functionCall, mark))
        elif part.functionResponse is not None:
            result, media = result_part(part.functionResponse, (), f"{key}#{record.id}")
            result.name = (mark.names or {}).get(result.call_id, result.name)
            kept += [result, *media]
        elif part.text and not part.thought:
            texts.append(part.text)
    del texts[: mark.lead]
    for call_id, name, wrong, said in mark.results or ():
        output = texts[1] if said and len(texts) > 1 else ""
        del texts[: 1 + said]
        kept.append(Part(type=TOOL_RESULT, call_id=call_id, name=name, output=output, is_error=wrong))
    words = "".join(texts[: len(texts) - len(mark.files or ())])
    for kind, ref, media_type, name in mark.files or ():
        kept.append(Part(type=kind, ref=ref, media_type=media_type, name=name))
    if not words and not kept:
        return None
    role = mark.role or (USER if record.type == "user" else ASSISTANT)
    message = Message(role=role, content=words, timestamp=moment(record.timestamp), id=record.id, parts=kept or None)
    return measured(message, record) if role == ASSISTANT else message


def _own_call(call: FunctionCall, mark: Mark) -> Part:
    call_id = call.id or ""
    value = call.args
    if call_id in (mark.wrapped or ()) and isinstance(value, dict):
        value = value.get("input")
    return Part(type=TOOL_CALL, id=call_id, name=(mark.names or {}).get(call_id, call.name or ""), input=value)
