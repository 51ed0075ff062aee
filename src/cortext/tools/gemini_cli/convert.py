"""Our messages as records of Gemini CLI: real turns, in a form that survives being resumed again and again.

Each message becomes one record with our id; `cortext` in it says how to get the message back. Calls stand in the
content of the model's record and their results in a user record, because only so the program sends each exactly
once at every resume (with results inside `toolCalls` it sends them again from the second resume on). `toolCalls` is
there all the same, for the screen, under ids that the program does not match with the results.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from cortext.model import clock
from cortext.model.message import ASSISTANT, SYSTEM, TEXT, THINKING, TOOL, TOOL_CALL, TOOL_RESULT, USER, Message, Part
from cortext.model.message import said as said_in
from cortext.tools.base import Written
from cortext.tools.gemini_cli.mark import HOOK_CONTEXT, SESSION_CONTEXT, Mark, dump
from cortext.tools.gemini_cli.pairs import Pairs, separated
from cortext.tools.shared.lines import derived_id, note

Json = dict[str, Any]

# What the program strips before it looks how a message begins: JavaScript's white space, and Python's.
_BLANKS = (
    " \t\n\v\f\r\x1c\x1d\x1e\x1f\x85\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)
_GUARDED = (
    ("/", "leading slash guarded"),
    ("?", "leading question mark guarded"),
    (SESSION_CONTEXT, "leading <session_context> guarded"),
    (HOOK_CONTEXT, "leading <hook_context> guarded"),
)
_GUARD = "The user wrote:\n"
_SYSTEM_LEAD = "A note of the system, not of the user:\n"
_UNANSWERED = "[The result of this call was not recorded.]"
# On the screen such a text is passed over: the results are shown with their calls.
_HIDDEN = [{"text": HOOK_CONTEXT}]
_SHOWN_RESULT = 2_000
_TOOL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.:-]{0,127}")
# The program's line reader ends a line at these, too, and writes them bare: a message with one breaks its file.
_SEPARATORS = re.compile("[\u2028\u2029]")
_SURROGATES = re.compile("[\ud800-\udfff]")


class Conversion(msgspec.Struct):
    """Our messages as records; the messages that must be read back from them; what had to change."""

    records: list[Json]
    expected: list[Message]
    tool_calls: int
    changed: dict[str, int]

    def report(self, key: str = "", path: str = "") -> Written:
        """What was, or would be, written."""
        changed = dict(self.changed)
        return Written(key=key, path=path, messages=len(self.expected), tool_calls=self.tool_calls, changed=changed)


def convert(messages: Sequence[Message]) -> Conversion:
    """The records of a native session that holds these messages."""
    return _Converter(separated(messages)).convert()


class _Converter:
    def __init__(self, messages: Sequence[Message]) -> None:
        self.pairs = Pairs(messages)
        self.messages = messages
        self.done = Conversion([], [], 0, {})
        self._now = clock.now()
        self._ids: set[str] = set()
        self._call_ids: dict[tuple[int, int], str] = {}  # (message, part): the call's id in the file
        self._used_call_ids: set[str] = set()

    def convert(self) -> Conversion:
        for unit in self.pairs.units():
            message = self.messages[unit.message]
            if unit.unanswered:
                self._fill_in(unit.message, unit.parts)
            elif message.role == ASSISTANT:
                self._model_turn(unit.message, message)
            else:
                if unit.moved:
                    self._changed("tool result moved to its call")
                if not unit.whole:
                    self._changed("tool message split")
                self._user_turn(unit.message, message, unit.parts, whole=unit.whole)
        return self.done

    # ── turns ────────────────────────────────────────────────────────────────────────────────────────

    def _user_turn(self, place: int, message: Message, wanted: Sequence[int], *, whole: bool) -> None:
        """A user's, a system's or a tool's message: all of it, or only some of its results."""
        mark = Mark(role="" if message.role == USER else message.role)
        back: list[Part] = []
        content: list[Json] = []
        for number in wanted:
            answer, result = self._answer(place, number, mark)
            content.append(answer)
            back.append(result)
        words = ""
        if whole:
            content += self._orphans(place, message, mark, back)
            words = self._clean(self._words(message))
            content += self._lead(message, words, mark, first=not content)
            content += [{"text": words}] if words else []
            content += self._files(message, mark, back)
        if not content:
            if whole and not self.pairs.results_of(place):
                self._changed("empty message left out")
            return
        record = self._record("user", message, content, mark)
        if message.role == TOOL:
            record["displayContent"] = _HIDDEN
        elif mark.lead and words.lstrip(_BLANKS).startswith(("/", "?")):
            record["displayContent"] = [{"text": words}]  # any other would not be shown so
        self._add(record, message, words, back)

    def _model_turn(self, place: int, message: Message) -> None:
        mark = Mark()
        back: list[Part] = []
        words = self._clean(self._words(message))
        content: list[Json] = [{"text": words}] if words else []
        content += self._files(message, mark, back)
        shown = []
        calls: list[Part] = []
        for number, part in enumerate(message.parts or ()):
            if part.type == TOOL_CALL:
                call = self._call(place, number, part, mark)
                content.append({"functionCall": call})
                calls.append(Part(type=TOOL_CALL, id=call["id"], name=part.name, input=_back(part.input, call["args"])))
                shown.append(self._shown(place, number, call, message))
        if not content:
            self._changed("empty message left out")
            return
        plain = len(content) == 1 and bool(words)
        record = self._record("gemini", message, words if plain else content, mark)
        if message.model:
            record["model"] = message.model
        if shown:
            record["toolCalls"] = shown
            if words:
                record["displayContent"] = [{"text": words}]
        self._add(record, message, words, [*calls, *back])
        self.done.tool_calls += len(calls)

    def _fill_in(self, place: int, numbers: Sequence[int]) -> None:
        """A word for each call that never got a result: the model's service refuses a call without one."""
        message = self.messages[place]
        answers = []
        for number in numbers:
            part = (message.parts or [])[number]
            answers.append(_response(self._call_ids[place, number], _tool_name(part.name), {"output": _UNANSWERED}))
            self._changed("result of a call filled in")
        name = self._free_id(f"{message.id or place}/unanswered")
        mark = msgspec.to_builtins(Mark(made=True))
        when = message.timestamp or self._now
        record = {"id": name, "timestamp": when, "type": "user", "content": answers, "displayContent": _HIDDEN}
        self.done.records.append({**record, "cortext": mark})

    def _record(self, kind: str, message: Message, content: str | list[Json], mark: Mark) -> Json:
        name = self._free_id(message.id or derived_id(TOOL, len(self.done.records), message.text))
        record: Json = {"id": name, "timestamp": message.timestamp or self._now, "type": kind, "content": content}
        record["cortext"] = msgspec.to_builtins(mark)
        return record

    def _add(self, record: Json, message: Message, words: str, parts: list[Part]) -> None:
        self.done.records.append(record)
        back = Message(role=message.role, content=words, id=record["id"], parts=parts or None)
        self.done.expected.append(back)
        for part in message.parts or ():
            if part.type == THINKING:
                self._changed("thinking dropped")
        if message.role == SYSTEM:
            self._changed("system message as a user turn")

    # ── what a turn holds ────────────────────────────────────────────────────────────────────────────

    def _words(self, message: Message) -> str:
        """What was said; for a tool's message only what its results do not say already."""
        if not message.parts:
            return message.content if message.role != TOOL else ""
        if message.role == TOOL and message.content == Message(role=TOOL, parts=message.parts).text:
            return ""
        return message.content or said_in(message.parts)

    def _lead(self, message: Message, words: str, mark: Mark, *, first: bool) -> list[Json]:
        """Words of ours in front, where the program would take the user's for its own and drop them."""
        if message.role == SYSTEM and words:
            mark.lead = 1
            return [{"text": _SYSTEM_LEAD}]
        if not first or not words:
            return []
        begin = words.lstrip(_BLANKS)
        kinds = [kind for sign, kind in _GUARDED if begin.startswith(sign)] or ([] if begin else ["blank text guarded"])
        if not kinds:
            return []
        self._changed(kinds[0])
        mark.lead = 1
        return [{"text": _GUARD}]

    def _files(self, message: Message, mark: Mark, back: list[Part]) -> list[Json]:
        """Images and files: a note of what they are and where."""
        notes = []
        for part in message.parts or ():
            if part.type in (TEXT, THINKING, TOOL_CALL, TOOL_RESULT):
                continue
            self._changed(f"{part.type} as a note")
            mark.files = [*(mark.files or ()), (part.type, part.ref, part.media_type, part.name)]
            back.append(Part(type=part.type, ref=part.ref, media_type=part.media_type, name=part.name))
            facts = [text for text in (part.name, part.ref, part.media_type, part.text) if text]
            notes.append({"text": self._clean(f"\n[{part.type}: {', '.join(facts)}]")})
        return notes

    def _call(self, place: int, number: int, part: Part, mark: Mark) -> Json:
        message = self.messages[place]
        call_id = part.id
        if not call_id or call_id in self._used_call_ids:
            self._changed("call id changed")
            call_id = f"{message.id or place}-call-{number}"
            if call_id in self._used_call_ids:  # two messages of one id: the place is nobody else's
                call_id = f"{call_id}-{place}"
        self._used_call_ids.add(call_id)
        self._call_ids[place, number] = call_id
        name = _tool_name(part.name)
        if name != part.name:
            self._changed("tool name changed")
            mark.names = {**(mark.names or {}), call_id: part.name}
        if part.input is None or isinstance(part.input, dict):
            value = part.input or {}
        else:
            self._changed("tool input wrapped")
            mark.wrapped = [*(mark.wrapped or ()), call_id]
            value = {"input": part.input}
        return {"id": call_id, "name": name, "args": self._clean_value(value)}

    def _answer(self, place: int, number: int, mark: Mark) -> tuple[Json, Part]:
        """A result under the id and name of its call."""
        part = (self.messages[place].parts or [])[number]
        where = self.pairs.call_of[place, number]
        call = (self.messages[where[0]].parts or [])[where[1]]
        call_id, name = self._call_ids[where], _tool_name(call.name)
        own_name = part.name or call.name
        if own_name != name:
            mark.names = {**(mark.names or {}), call_id: own_name}
        output = self._clean(part.output)
        result = Part(type=TOOL_RESULT, call_id=call_id, name=own_name, output=output, is_error=part.is_error)
        return _response(call_id, name, {"error" if part.is_error else "output": output}), result

    def _orphans(self, place: int, message: Message, mark: Mark, back: list[Part]) -> list[Json]:
        """Results whose call is not there: as text."""
        parts = message.parts or []
        orphans = [part for number, part in enumerate(parts) if number in self.pairs.orphans(place)]
        if message.role == TOOL and message.content and not message.parts:
            orphans = [Part(type=TOOL_RESULT, output=message.content)]
        content: list[Json] = []
        for part in orphans:
            self._changed("tool result without its call as text")
            output = self._clean(part.output)
            whose = f"{part.name or 'a tool'} that was not recorded{', which failed' if part.is_error else ''}"
            content.append({"text": f"\n[Result of a call of {whose}:]\n"})
            content += [{"text": output}] if output else []
            mark.results = [*(mark.results or ()), (part.call_id, part.name, part.is_error, bool(output))]
            back.append(
                Part(type=TOOL_RESULT, call_id=part.call_id, name=part.name, output=output, is_error=part.is_error)
            )
        return content

    def _shown(self, place: int, number: int, call: Json, message: Message) -> Json:
        """A call for the screen, with the beginning of its result."""
        where = self.pairs.answer_of.get((place, number))
        result = (self.messages[where[0]].parts or [])[where[1]] if where else None
        output = self._clean(result.output, count=False)[:_SHOWN_RESULT] if result else _UNANSWERED
        return {
            "id": f"shown:{call['id']}",
            "name": call["name"],
            "args": call["args"],
            "status": "error" if result and result.is_error else "success",
            "timestamp": message.timestamp or self._now,
            "resultDisplay": output,
            "displayName": call["name"],
            "description": dump(call["args"])[:120],
            "renderOutputAsMarkdown": False,
        }

    # ── texts and ids ────────────────────────────────────────────────────────────────────────────────

    def _clean(self, text: str, *, count: bool = True) -> str:
        """A text without the characters that the program's own file cannot hold."""
        if text.isascii():
            return text
        if "\u2028" in text or "\u2029" in text:
            text, found = _SEPARATORS.subn("\n", text)
            if count:
                self._changed("line separator made a newline", found)
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            text, found = _SURROGATES.subn("\ufffd", text)
            if count:
                self._changed("broken character replaced", found)
        return text

    def _clean_value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._clean(value)
        if isinstance(value, dict):
            return {self._clean(str(key)): self._clean_value(inner) for key, inner in value.items()}
        return [self._clean_value(inner) for inner in value] if isinstance(value, list | tuple) else value

    def _free_id(self, wanted: str) -> str:
        name, number = wanted, 1
        while name in self._ids:
            number += 1
            name = f"{wanted}+{number}"
        self._ids.add(name)
        return name

    def _changed(self, kind: str, count: int = 1) -> None:
        note(self.done.changed, kind, count)


def _response(call_id: str, name: str, response: Json) -> Json:
    return {"functionResponse": {"id": call_id, "name": name, "response": response}}


def _tool_name(name: str) -> str:
    """A tool's name as the model's service takes it."""
    if _TOOL_NAME.fullmatch(name):
        return name
    plain = re.sub(r"[^A-Za-z0-9_.:-]", "_", name)[:120]
    return plain if _TOOL_NAME.fullmatch(plain) else f"tool_{plain}"


def _back(given: Any, args: Json) -> Any:
    """The input as it is read back: unwrapped, and nothing for nothing."""
    return args if given is None or isinstance(given, dict) else args["input"]


def differences(expected: Sequence[Message], found: Sequence[Message]) -> Iterator[str]:
    """Where what was read back is not what was written."""
    if len(expected) != len(found):
        yield f"{len(found)} messages instead of {len(expected)}"
    for one, other in zip(expected, found, strict=False):
        for field in ("id", "role", "content", "parts"):
            if getattr(one, field) != getattr(other, field):
                yield f"{field} of message {ascii(one.id)[:60]}"
