"""One record of Gemini CLI as messages of ours: what was said, called and answered in it."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence

import msgspec

from cortext.model import clock
from cortext.model.message import ASSISTANT, TEXT, TOOL, TOOL_CALL, TOOL_RESULT, USER, Message, Part, joined_text
from cortext.tools.gemini_cli.mark import HOOK_CONTEXT, SESSION_CONTEXT, Mark
from cortext.tools.gemini_cli.records import (
    EDITOR_CONTEXT,
    NUDGES,
    SNAPSHOT,
    ContentPart,
    FunctionCall,
    FunctionResponse,
    Record,
    ToolCall,
    code_of,
    media_of,
    output_of,
    parts_of,
    text_of,
    thinking_of,
)
from cortext.tools.gemini_cli.seen import LONG, Seen, sign

RESUMED = "[RESUMED CONVERSATION]"
# How our command files name themselves in the prompt that they become: the program shows hooks only that.
COMMAND_MARK = re.compile(r"<!-- cortext:command /?([\w.:-]+) -->(.*?)<!-- cortext:end -->", re.DOTALL)


def moment(timestamp: str | None) -> str:
    """A time in our spelling; empty where it is none."""
    if not timestamp:
        return ""
    # What the program writes is our spelling already: only the minute, mostly known, has to be a real one.
    if _REST.fullmatch(timestamp, 16) and _is_minute(timestamp[:16]):
        return timestamp
    return clock.normalise(timestamp)


_REST = re.compile(r":[0-5][0-9]\.[0-9]{3}Z")


@functools.lru_cache(maxsize=4096)
def _is_minute(text: str) -> bool:
    return clock.normalise(f"{text}:00Z") == f"{text}:00Z"


# ── the user ─────────────────────────────────────────────────────────────────────────────────────────


def bookkeeping(words: str) -> str:
    """What kind of text of the program's own this is; empty where somebody said it."""
    if words[:1] not in _SUSPECT:
        return ""
    begin = words[:200].lstrip()
    for start, kind in _OWN_TEXTS:
        if begin.startswith(start):
            return kind
    return NUDGES.get(words, "") if len(words) < 100 else ""


_OWN_TEXTS = (
    (SESSION_CONTEXT, "session context"),
    (SNAPSHOT, "compression summary"),
    (EDITOR_CONTEXT, "editor context"),
    ("System: Potential loop detected.", "nudge to continue"),
)
_SUSPECT = " \t\r\n" + "".join({text[0] for text in [*NUDGES, *(start for start, _ in _OWN_TEXTS)]})


def typed_command(record: Record, words: str) -> str:
    """The slash command that the user typed to get this prompt, or nothing."""
    if record.displayContent is not None:
        shown = text_of(parts_of(record.displayContent)).strip()
        if shown.startswith("/"):
            return shown
    mark = COMMAND_MARK.search(words) if "<!-- cortext:command" in words else None
    return f"/{mark[1]} {mark[2].strip()}".rstrip() if mark else ""


def user_messages(record: Record, parts: Sequence[ContentPart], key: str) -> tuple[Message | None, Message | None]:
    """What the user said (the typed command rather than what it became, without what hooks added), and our block."""
    own = [part for part in parts if part.functionResponse is None]
    added = [part.text for part in own if part.text and part.text.startswith(HOOK_CONTEXT)]
    words = text_of([part for part in own if part.text not in added] if added else own)
    command = typed_command(record, words)
    block = words if RESUMED in words else next((text for text in added if RESUMED in text), "")
    when = moment(record.timestamp)
    content = command or ("" if block and block is words else words)
    media = media_of(own, f"{key}#{record.id}")
    message = injected = None
    if content or media:
        message = Message(role=USER, content=content, timestamp=when, id=record.id, parts=media or None)
    if block:
        name = f"{record.id}/block" if message else record.id
        extra = {"resume_block": True}
        injected = Message(role=USER, content=block, timestamp=when, id=name, aside=True, extra=extra)
    return message, injected


# ── the model ────────────────────────────────────────────────────────────────────────────────────────


def model_message(record: Record, words: str, parts: Sequence[ContentPart], key: str, when: str) -> Message | None:
    """What the model said and thought; None where it only called tools."""
    kept = thinking_of(record, parts) if parts or record.thoughts else []
    if parts:
        code = code_of(parts)
        kept += [*code, *media_of(parts, f"{key}#{record.id}")]
        if code:  # what the model ran on its side is said, too
            kept.insert(0, Part(type=TEXT, text=words))
            words = joined_text(kept)
    if not words and not kept:
        return None
    return Message(
        role=ASSISTANT,
        content=words,
        timestamp=when,
        id=record.id,
        parts=kept or None,
        model=record.model or "",
        usage=record.tokens,
        tokens=output_tokens(record),
    )


def output_tokens(record: Record) -> int | None:
    """How long the answer was, in the provider's own count."""
    count = record.tokens.get("output") if record.tokens else None
    return count if isinstance(count, int) else None


def plain_answer(record: Record, key: str, answers: dict[str, str]) -> tuple[list[Message], Seen]:
    """An ordinary answer whole: words and thoughts, calls, and the results that are not among `answers` yet.

    The same as `model_message`, `calls_message` and `result_message` give, written out in one piece: it is most of
    every transcript, and every call of a function counts (a test holds the two against each other).
    """
    name, when, model, usage = record.id, moment(record.timestamp), record.model or "", record.tokens
    words = record.content if type(record.content) is str else ""
    tokens = usage.get("output") if usage else None
    if type(tokens) is not int:
        tokens = None
    given: list[Message] = []
    kept = thinking_of(record, ()) if record.thoughts else None
    seen = Seen(words if len(words) < LONG else sign(words), bool(words or kept))
    if seen.said:
        given.append(
            Message(
                role=ASSISTANT,
                content=words,
                timestamp=when,
                id=name,
                parts=kept or None,
                model=model,
                usage=usage,
                tokens=tokens,
            )
        )
        usage = tokens = None  # told once
    if not record.toolCalls:
        return given, seen
    calls = calls_of(record, ())
    seen.calls = len(calls)
    parts = [Part(TOOL_CALL, "", call.id or "", call.name or "", call.args) for call in calls]
    called = f"{name}/calls"
    given.append(
        Message(role=ASSISTANT, timestamp=when, id=called, parts=parts, model=model, usage=usage, tokens=tokens)
    )
    place = -1
    for call in calls:
        place += 1
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
            result: Message | None = Message(role=TOOL, timestamp=at, id=f"{name}/result/{place}", parts=[part])
        else:
            result = result_message(call, f"{name}/result/{place}", key, when)
        if result is not None:
            answers[call_id] = result.id
            seen.answered.append(call_id)
            given.append(result)
    return given, seen


def calls_of(record: Record, parts: Sequence[ContentPart]) -> list[ToolCall]:
    """The tool calls of a record in order, each with an id, from either of the two places where they are kept."""
    shown = record.toolCalls or []
    spoken = [part.functionCall for part in parts if part.functionCall is not None] if parts else []
    if spoken:
        answered = {entry.id: entry for entry in shown}
        calls = [answered.pop(call.id, ToolCall(call.id, call.name, call.args)) for call in spoken]
        shown = [*calls, *answered.values()]
    for place, entry in enumerate(shown):
        if not entry.id:
            entry.id = f"{record.id}/{place}"
    return shown


def calls_message(record: Record, calls: Sequence[ToolCall], name: str, when: str) -> Message:
    """A message of tool calls."""
    parts = [Part(TOOL_CALL, "", call.id or "", call.name or "", call.args) for call in calls]
    return Message(role=ASSISTANT, timestamp=when, id=name, parts=parts, model=record.model or "")


def result_message(call: ToolCall, name: str, key: str, when: str) -> Message | None:
    """A tool's answer as a message; None while there is none."""
    result = call.result
    when = moment(call.timestamp) or when
    if result is None or result == "" or result == []:
        return None
    first = result[0] if isinstance(result, list) else result
    answer = first.functionResponse if isinstance(first, ContentPart) else None
    more: Sequence[ContentPart] = ()
    if answer is None or (isinstance(result, list) and len(result) > 1):
        answer, more = _own_answer(call, parts_of(result))
    part = result_part(answer, more)
    part.call_id = call.id or ""
    part.name = call.name or part.name
    if call.status in ("error", "cancelled"):
        part.is_error = True
    kept = [part]
    if more or answer.parts:
        kept += media_of([*(answer.parts or ()), *more], f"{key}#{name}")
    return Message(role=TOOL, timestamp=when, id=name, parts=kept)


def _own_answer(call: ToolCall, parts: Sequence[ContentPart]) -> tuple[FunctionResponse, Sequence[ContentPart]]:
    """The call's own answer: after a resume the program puts the answers of all calls with each of them."""
    answers = [part.functionResponse for part in parts if part.functionResponse is not None]
    own = [answer for answer in answers if answer.id == call.id] or [answer for answer in answers if not answer.id]
    more = [part for part in parts if part.functionResponse is None] if len(answers) <= 1 else []
    if answers:
        return (own or answers)[0], more
    return FunctionResponse(id=call.id, name=call.name), more


def result_part(answer: FunctionResponse, more: Sequence[ContentPart] = ()) -> Part:
    """An answer as a part; words that stand beside it belong to it."""
    output, wrong = output_of(answer.response)
    extra = text_of(more) if more else ""
    if extra and extra != output:
        output = f"{output}\n{extra}" if output else extra
    return Part(type=TOOL_RESULT, call_id=answer.id or "", name=answer.name or "", output=output, is_error=wrong)


# ── what we wrote ourselves ──────────────────────────────────────────────────────────────────────────


def own_message(record: Record, mark: Mark) -> Message | None:
    """Our message back out of a record that we wrote: one record, one message."""
    if mark.added:
        return None
    try:
        if original := mark.original():
            return msgspec.structs.replace(original, id=record.id, seq=-1, parent="")
    except msgspec.ValidationError:
        pass  # changed by somebody: what the record itself says
    kept: list[Part] = []
    texts: list[str] = []
    for part in parts_of(record.content):
        if part.functionCall is not None:
            kept.append(_own_call(part.functionCall, mark))
        elif part.functionResponse is not None:
            result = result_part(part.functionResponse)
            result.name = (mark.names or {}).get(result.call_id, result.name)
            kept.append(result)
        elif part.text and not part.thought:
            texts.append(part.text)
    del texts[: mark.lead]
    for call_id, name, wrong, answered in mark.results or ():
        output = texts[1] if answered and len(texts) > 1 else ""
        del texts[: 1 + answered]
        kept.append(Part(type=TOOL_RESULT, call_id=call_id, name=name, output=output, is_error=wrong))
    words = "".join(texts[: len(texts) - len(mark.files or ())])
    for kind, ref, media_type, name in mark.files or ():
        kept.append(Part(type=kind, ref=ref, media_type=media_type, name=name))
    if not words and not kept:
        return None
    role = mark.role or (USER if record.type == "user" else ASSISTANT)
    message = Message(role=role, content=words, timestamp=moment(record.timestamp), id=record.id, parts=kept or None)
    if role == ASSISTANT:
        message.model, message.usage, message.tokens = record.model or "", record.tokens, output_tokens(record)
    return message


def _own_call(call: FunctionCall, mark: Mark) -> Part:
    call_id = call.id or ""
    value = call.args
    if call_id in (mark.wrapped or ()) and isinstance(value, dict):
        value = value.get("input")
    return Part(type=TOOL_CALL, id=call_id, name=(mark.names or {}).get(call_id, call.name or ""), input=value)
