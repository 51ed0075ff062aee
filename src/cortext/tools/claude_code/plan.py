"""A conversation of any origin as turns that Claude Code takes whole: what to write, and what has to change.

What the program would do to a foreign history (tried on the real one, 2.1.325): an answer of the model is put
together by `message.id`, so consecutive messages of the assistant share one; a result that does not follow its
call is dropped, a second call of the same id too; blank texts and an assistant's "(no content)" vanish. The
model's interface adds its own: names and ids of calls are plain words, inputs are objects, a user begins.
"""

import re
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

from cortext.model.message import (
    ASSISTANT,
    FILE,
    IMAGE,
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
    thread,
)
from cortext.tools.shared.lines import note

Json = dict[str, Any]
Place = tuple[int, int]  # of a part: which message, which part of it

NOT_RECORDED = "[The result of this call was not recorded.]"
BEGINS = "[The conversation begins with the assistant.]"
_CALL_ID = re.compile(r"[A-Za-z0-9_-]{1,256}")
_NAME = re.compile(r"[A-Za-z0-9_-]{1,128}")
_VANISHES = "(no content)"


class Turn(NamedTuple):
    """One record to be: in whose place, what it holds, and the message that it is made from."""

    role: str
    blocks: list[Json]
    message: Message | None  # None where there was none: a turn that we had to add


class Plan:
    """The turns for a sequence of messages; `changed` counts, by kind, what is not as it was."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self.turns: list[Turn] = []
        self.changed: dict[str, int] = {}
        self._kept = thread(messages)
        self._leave_out(messages)
        self._pieces = [_pieces(message) for message in self._kept]
        self._roles = [_role(message, pieces) for message, pieces in zip(self._kept, self._pieces, strict=True)]
        self._names: dict[Place, tuple[str, str]] = {}  # what a call is called there: id and name
        self._calls: dict[int, list[Place]] = {}  # the calls of each message
        self._answers: dict[Place, Place] = {}  # the result of each call
        self._pair()
        self._results = {answer: call for call, answer in self._answers.items()}
        self._done: set[int] = set()
        self._lay_out()
        if self.turns and self.turns[0].role == ASSISTANT:
            self.turns.insert(0, Turn(USER, [{"type": "text", "text": BEGINS}], None))
            note(self.changed, "opening user turn added")
        self.messages = sum(turn.message is not None for turn in self.turns)
        self.tool_calls = sum(block["type"] == "tool_use" for turn in self.turns for block in turn.blocks)

    def _leave_out(self, messages: Sequence[Message]) -> None:
        asides = sum(message.aside for message in messages)
        partial = sum(message.partial and not message.aside for message in messages)
        branches = len(messages) - len(self._kept) - asides - partial
        for kind, count in (("aside", asides), ("cut reply", partial), ("other branch", branches)):
            if count > 0:
                note(self.changed, f"{kind} left out", count)

    # ── calls and results ────────────────────────────────────────────────────────────────────────────

    def _pair(self) -> None:
        """Find the result of each call: the first of its id that comes after it and answers no other."""
        waiting: dict[str, deque[Place]] = {}
        calls: list[tuple[Place, Part]] = []
        for index, pieces in enumerate(self._pieces):
            for number, part in enumerate(pieces):
                if part.type == TOOL_CALL and self._roles[index] == ASSISTANT:
                    calls.append(((index, number), part))
                elif part.type == TOOL_RESULT:
                    waiting.setdefault(part.call_id, deque()).append((index, number))
        used: set[str] = set()
        for place, part in calls:
            results = waiting.get(part.id, deque())
            while results and results[0] < place:
                results.popleft()
            if results:
                self._answers[place] = results.popleft()
            self._names[place] = self._call_name(part, place, used)
            self._calls.setdefault(place[0], []).append(place)

    def _call_name(self, part: Part, place: Place, used: set[str]) -> tuple[str, str]:
        call = part.id
        if not _CALL_ID.fullmatch(call) or call in used:
            import hashlib  # 4 ms, and most ids are as they must be

            words = f"{call}\0{place[0]}\0{place[1]}".encode("utf-8", "surrogatepass")
            call = "toolu_" + hashlib.sha256(words).hexdigest()[:24]
            note(self.changed, "call id changed")
        used.add(call)
        name = part.name
        if not _NAME.fullmatch(name):
            name = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:128] or "tool"
            note(self.changed, "tool name changed")
        return call, name

    # ── the order ────────────────────────────────────────────────────────────────────────────────────

    def _lay_out(self) -> None:
        """The messages in order, each run of the assistant's followed by all its results."""
        index = 0
        while index < len(self._kept):
            if self._roles[index] != ASSISTANT:
                if index not in self._done:
                    self._add(index, USER, [])
                index += 1
                continue
            end = index
            while end < len(self._kept) and self._roles[end] == ASSISTANT:
                self._add(end, ASSISTANT, [])
                end += 1
            self._add_results(index, end)
            index = end

    def _add_results(self, begin: int, end: int) -> None:
        calls = [place for index in range(begin, end) for place in self._calls.get(index, ())]
        if not calls:
            return
        missing = [self._names[call][0] for call in calls if call not in self._answers]
        if missing:
            note(self.changed, "missing result added", len(missing))
            self.turns.append(Turn(USER, [_result(call, NOT_RECORDED, True) for call in missing], None))
        answers = sorted(self._answers[call] for call in calls if call in self._answers)
        indices = sorted({answer[0] for answer in answers})
        later = []
        for index in indices:
            mine = [self._result_block(answer) for answer in answers if answer[0] == index]
            if any(self._roles[between] != TOOL for between in range(end, index)):
                note(self.changed, "result moved to its call")
            # The rest of a message that is there already, or that has its own place as an answer.
            if index in self._done or self._roles[index] == ASSISTANT:
                self.turns.append(Turn(USER, mine, None))
            elif index != indices[-1] and self._says_more(index):  # words only after the last result
                self.turns.append(Turn(USER, mine, None))
                later.append(index)
            else:
                self._add(index, USER, mine)
        for index in later:
            self._add(index, USER, [])

    def _says_more(self, index: int) -> bool:
        """Whether a message holds more than results that have their place."""
        return any((index, number) not in self._results for number in range(len(self._pieces[index])))

    def _add(self, index: int, role: str, results: list[Json]) -> None:
        """One message as a turn: its results first, then everything else that it holds, as the tool takes it."""
        self._done.add(index)
        message = self._kept[index]
        blocks = list(results)
        for number, part in enumerate(self._pieces[index]):
            block = self._block((index, number), part, self._roles[index])
            if block is not None:
                blocks.append(block)
        if not blocks:
            if not any(part.type == THINKING for part in message.parts or ()):
                note(self.changed, "empty message left out")
            return
        self.turns.append(Turn(role, blocks, message))

    # ── blocks ───────────────────────────────────────────────────────────────────────────────────────

    def _block(self, place: Place, part: Part, role: str) -> Json | None:
        """A part as a block; None where it has its place elsewhere, or none."""
        if part.type == TEXT:
            return self._text(part.text, role)
        if part.type == TOOL_CALL and role == ASSISTANT:
            call, name = self._names[place]
            return {"type": "tool_use", "id": call, "name": name, "input": self._input(part.input)}
        if part.type == TOOL_CALL:
            return self._note("call outside an answer as text", f"[call of {part.name}]\n{_as_text(part.input)}")
        if part.type == TOOL_RESULT:
            if place in self._results:
                return None
            name = f": {part.name}" if part.name else ""
            text = f"[result of a tool call that was not recorded{name}]\n{part.output}"
            return self._note("result without a call as text", text)
        if part.type == THINKING:
            note(self.changed, "thinking dropped")
            return None
        if part.type in (IMAGE, FILE):
            kind = f", {part.media_type}" if part.media_type else ""
            return self._note(f"{part.type} as a reference", f"[{part.type}: {part.ref or part.name}{kind}]")
        return self._text(part.text, role) if part.text else None

    def _note(self, kind: str, text: str) -> Json:
        note(self.changed, kind)
        return {"type": "text", "text": self._clean(text)}

    def _text(self, text: str, role: str) -> Json | None:
        if not text:
            return None
        text = self._clean(text)
        if not text.strip() or (role == ASSISTANT and text.strip() == _VANISHES):
            return self._note("blank text quoted", f"[text: {_as_json(text)}]")
        if role == SYSTEM:
            return self._note("system text as the user's", f"[system note]\n{text}")
        return {"type": "text", "text": text}

    def _result_block(self, place: Place) -> Json:
        part = self._pieces[place[0]][place[1]]
        output = self._clean(part.output)
        if part.is_error and not output.strip():
            note(self.changed, "empty error named")
            output = "[an error without a text]"
        return _result(self._names[self._results[place]][0], output, part.is_error)

    def _input(self, value: Any) -> Json:
        if value is None:
            return {}
        if not isinstance(value, dict):
            note(self.changed, "tool input wrapped")
            value = {"input": value}
        wrapped: Json = self._clean_all(value)
        return wrapped

    def _clean(self, text: str) -> str:
        """Half a surrogate pair is no character: the model's interface refuses it."""
        if text.isascii():
            return text
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            note(self.changed, "broken character replaced")
            return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        return text

    def _clean_all(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._clean(value)
        if isinstance(value, dict):
            return {self._clean(str(name)): self._clean_all(item) for name, item in value.items()}
        return [self._clean_all(item) for item in value] if isinstance(value, list | tuple) else value


def _role(message: Message, pieces: list[Part]) -> str:
    """In whose place a message goes: results alone are a tool's, whoever is said to have spoken."""
    said = [part.type for part in pieces if part.type != THINKING]
    return TOOL if said and all(kind == TOOL_RESULT for kind in said) else message.role


def essence(message: Message) -> tuple[Any, ...]:
    """What must not get lost: who, the texts, the calls and their results, what was shown."""
    pieces = _pieces(message)
    return (
        message.role,
        said(pieces),
        [(part.id, part.name, part.input) for part in pieces if part.type == TOOL_CALL],
        [(part.call_id, part.output, part.is_error) for part in pieces if part.type == TOOL_RESULT],
        [part.ref for part in pieces if part.type in (IMAGE, FILE)],
    )


def _pieces(message: Message) -> list[Part]:
    """The parts of a message, its text among them."""
    parts = list(message.parts or ())
    content = message.content
    if not content or content == said(parts):
        return parts
    if message.role == TOOL and any(content == part.output for part in parts):
        return parts
    return [Part(TEXT, text=content), *(part for part in parts if part.type != TEXT or part.text not in content)]


def _result(call: str, output: str, is_error: bool) -> Json:
    return {"type": "tool_result", "tool_use_id": call, "content": output, "is_error": is_error}


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else _as_json(value)


def _as_json(value: Any) -> str:
    import json  # 2 ms, and few conversations need it

    return json.dumps(value, ensure_ascii=False)
