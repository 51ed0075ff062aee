"""A conversation in the one normal form from which every target is rendered: a native session or a model request.

    one thread: asides, interrupted replies and abandoned branches are left out
    every call has a result; results follow directly after the assistant's messages that made the calls
    call ids are unique; ids, names, inputs and texts are valid for every target
    what fits no target as it is (a system note, a result without its call, an image) becomes text with a label

Every difference is counted by kind (`Difference`), the one vocabulary of every receipt. An adapter renders the turns
and adds at most what its own program does to them.
"""

from __future__ import annotations

import json
import math
import re
from collections import deque
from collections.abc import Container, Iterator, Sequence
from enum import StrEnum
from typing import Any

import msgspec

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
    Picture,
    instructions_of,
    joined_text,
    remarks,
)
from cortext.model.threads import thread

NOT_RECORDED = "[The result of this call was not recorded.]"
OPENING = "[The conversation begins with the assistant.]"
SYSTEM_NOTE = "[system note, not the user's words]"
TOO_DEEP = "[left out: nested too deeply]"
DEEPEST = 100  # nesting levels of a call's input that programs and model APIs still accept

_CALL_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_TOOL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


class Difference(StrEnum):
    """The kinds of changes to a conversation on its way to a target. The receipt shows `<count> × <value>`."""

    ASIDE = "subagent message left out"
    CUT_REPLY = "interrupted reply left out"
    BRANCH = "message on another branch left out"
    EMPTY = "empty message left out"
    BLANK = "whitespace-only text quoted"
    THINKING = "thinking left out"
    OPENING = "opening user message added"
    SYSTEM = "system message sent as a user message"
    INSTRUCTIONS = "instructions of a command or skill sent as a user message"
    RESULT_ADDED = "placeholder added for a missing tool result"
    RESULT_MOVED = "tool result moved next to its call"
    RESULT_AS_TEXT = "tool result without a call turned into text"
    CALL_AS_TEXT = "tool call outside an assistant message turned into text"
    CALL_ID = "tool call id changed"
    TOOL_NAME = "tool name changed"
    INPUT_WRAPPED = "tool input wrapped in an object"
    INPUT_LEFT_OUT = "deeply nested tool input left out"
    IMAGE = "image replaced by a text note"
    FILE = "file replaced by a text note"
    PART = "part of an unknown type replaced by a text note"
    CHARACTER = "invalid Unicode character replaced"
    PATH = "path mapped to where the project is now"
    CONTROL = "control text of a program or a model disarmed"
    # Only for some tools:
    GUARDED = "line added before text that looks like a command"
    SEPARATOR = "Unicode line separator replaced by a newline"
    ERROR_NAMED = "text added to an empty error"
    ERROR_FLAG = "error flag left out"
    QUOTED = "text that the tool would drop quoted"
    CALLS_AS_TEXT = "tool call and its result turned into text"
    CODE_FENCE = "code block marked so that the tool does not run it"
    INDENTED = "line indented that the tool would leave out"
    LINE_LEFT_OUT = "line that begins with # or > left out"


class Text(msgspec.Struct, frozen=True):
    """Text. A label says what it is if it is not simply what was said; the text may then be empty."""

    text: str
    label: str = ""
    part: Part | None = None  # what it stands for, if that was not text

    @property
    def whole(self) -> str:
        """The label and the text as one string."""
        return "\n".join(piece for piece in (self.label, self.text) if piece)


class Image(Text, frozen=True):
    """An image for a target that takes images; the label is what any other gets."""

    @property
    def picture(self) -> Picture:
        """The image."""
        assert isinstance(self.part, Picture)
        return self.part


class Call(msgspec.Struct, frozen=True):
    """A tool call by the assistant. Its input is an object, or a string for targets that accept one."""

    id: str
    name: str
    input: Any
    part: Part


class Result(msgspec.Struct, frozen=True):
    """The result of a call; `part` and the message it was in are None if it was not recorded."""

    call: Call
    output: str
    is_error: bool = False
    part: Part | None = None
    message: Message | None = None


Block = Text | Call | Result


class Turn(msgspec.Struct):
    """What one message becomes, or what had to be added next to it; `blocks` is never empty."""

    role: str  # user or assistant: every target has these two
    blocks: list[Block]
    message: Message | None  # None: added, or the results of a message whose text is in another turn

    @property
    def calls(self) -> list[Call]:
        return [block for block in self.blocks if isinstance(block, Call)]

    @property
    def results(self) -> list[Result]:
        return [block for block in self.blocks if isinstance(block, Result)]

    @property
    def texts(self) -> list[Text]:
        return [block for block in self.blocks if isinstance(block, Text)]


class Turns:
    """The normal form of a sequence of messages, and the number of differences by kind.

    `images_in`: the roles of messages whose images the target takes as such, if their bytes are at hand.
    """

    def __init__(
        self, messages: Sequence[Message], *, words_as_input: bool = False, images_in: Container[str] = ()
    ) -> None:
        self._words_as_input = words_as_input
        self._images_in = images_in
        self.images = 0  # how many are carried over as images
        self.turns: list[Turn] = []
        self.changed: dict[str, int] = {}
        kept = thread(messages)
        self._count_left_out(messages, kept)
        self._spoken = [_Spoken(message) for message in kept]
        self._calls: dict[_Position, Call] = {}
        self._calls_in: dict[int, list[_Position]] = {}  # by message
        self._answers: dict[_Position, _Position] = {}  # the position of each call's result
        self._pair()
        self._answered = {answer: call for call, answer in self._answers.items()}
        self._done: set[int] = set()
        self._lay_out()
        if self.turns and self.turns[0].role == ASSISTANT:
            self.turns.insert(0, Turn(USER, [Text("", OPENING)], None))
            self.note(Difference.OPENING)

    @property
    def messages(self) -> int:
        """How many messages are carried over."""
        return sum(turn.message is not None for turn in self.turns)

    @property
    def tool_calls(self) -> int:
        """How many calls are carried over, each with its result."""
        return sum(len(turn.calls) for turn in self.turns)

    @property
    def results(self) -> dict[str, Result]:
        """The result of each call, by the call's id."""
        return {result.call.id: result for turn in self.turns for result in turn.results}

    def note(self, change: Difference, count: int = 1) -> None:
        """Count a difference."""
        self.changed[change] = self.changed.get(change, 0) + count

    def _count_left_out(self, messages: Sequence[Message], kept: Sequence[Message]) -> None:
        asides = sum(message.aside for message in messages)
        cut = sum(message.partial and not message.aside for message in messages)
        branches = len(messages) - len(kept) - asides - cut
        for change, count in ((Difference.ASIDE, asides), (Difference.CUT_REPLY, cut), (Difference.BRANCH, branches)):
            if count > 0:
                self.note(change, count)

    # ── calls and results ────────────────────────────────────────────────────────────────────────────

    def _pair(self) -> None:
        """Assign to each call the first later result with its id that answers no other call."""
        waiting: dict[str, deque[_Position]] = {}
        calls: list[_Position] = []
        for index, spoken in enumerate(self._spoken):
            for number, part in enumerate(spoken.parts):
                if part.type == TOOL_CALL and spoken.role == ASSISTANT:
                    calls.append((index, number))
                elif part.type == TOOL_RESULT:
                    waiting.setdefault(part.call_id, deque()).append((index, number))
        used: set[str] = set()
        for position in calls:
            part = self._part(position)
            results = waiting.get(part.id, deque())
            while results and results[0] < position:
                results.popleft()
            if results:
                self._answers[position] = results.popleft()
            self._calls[position] = self._call(part, position, used)
            self._calls_in.setdefault(position[0], []).append(position)

    def _call(self, part: Part, position: _Position, used: set[str]) -> Call:
        call_id = part.id
        if not _CALL_ID.fullmatch(call_id) or call_id in used:
            call_id = f"call_{position[0]}_{position[1]}"
            while call_id in used:
                call_id += "x"
            self.note(Difference.CALL_ID)
        used.add(call_id)
        name = tool_name(part.name)
        if name != part.name:
            self.note(Difference.TOOL_NAME)
        return Call(call_id, name, self._input(part.input), part)

    def _input(self, value: Any) -> Any:
        if value is None:
            return {}
        if not is_shallow(value):
            self.note(Difference.INPUT_LEFT_OUT)
            return {"input": TOO_DEEP}
        cleaned = self._clean_value(value)
        if isinstance(cleaned, dict) or (isinstance(cleaned, str) and self._words_as_input):
            return cleaned
        self.note(Difference.INPUT_WRAPPED)
        return {"input": cleaned}

    # ── the order ────────────────────────────────────────────────────────────────────────────────────

    def _lay_out(self) -> None:
        """Arrange the messages in order; each run of assistant messages is followed by all results of its calls."""
        index = 0
        while index < len(self._spoken):
            if self._spoken[index].role != ASSISTANT:
                if index not in self._done:
                    self._add(index, USER, [])
                index += 1
                continue
            begin = index
            while index < len(self._spoken) and self._spoken[index].role == ASSISTANT:
                self._add(index, ASSISTANT, [])
                index += 1
            self._add_results(begin, index)

    def _add_results(self, begin: int, end: int) -> None:
        calls = [position for index in range(begin, end) for position in self._calls_in.get(index, ())]
        if missing := [self._calls[call] for call in calls if call not in self._answers]:
            self.note(Difference.RESULT_ADDED, len(missing))
            self.turns.append(Turn(USER, [Result(call, NOT_RECORDED, True) for call in missing], None))
        answers = sorted(self._answers[call] for call in calls if call in self._answers)
        indices = sorted({index for index, _ in answers})
        words_later: list[int] = []
        for index in indices:
            results: list[Block] = [self._result(answer) for answer in answers if answer[0] == index]
            if any(self._spoken[between].role != TOOL for between in range(end, index)):
                self.note(Difference.RESULT_MOVED)
            if index in self._done or self._spoken[index].role == ASSISTANT:
                self.turns.append(Turn(USER, results, None))  # its text has its own position
            elif index != indices[-1] and self._says_more(index):
                self.turns.append(Turn(USER, results, None))  # no text between results
                words_later.append(index)
            else:
                self._add(index, USER, results)
        for index in words_later:
            self._add(index, USER, [])

    def _says_more(self, index: int) -> bool:
        """Whether a message contains more than results of calls."""
        return any((index, number) not in self._answered for number in range(len(self._spoken[index].parts)))

    def _add(self, index: int, role: str, results: Sequence[Block]) -> None:
        """Add one message as a turn: its results first, then everything else in it."""
        self._done.add(index)
        blocks = [*results, *self._blocks(index)]
        if blocks:
            self.turns.append(Turn(role, blocks, self._spoken[index].message))
        elif not any(part.type in (THINKING, TOOL_RESULT) for part in self._spoken[index].parts):
            self.note(Difference.EMPTY)  # for the others, what happened to their parts is counted elsewhere

    # ── blocks ───────────────────────────────────────────────────────────────────────────────────────

    def _blocks(self, index: int) -> Iterator[Block]:
        spoken = self._spoken[index]
        about = self._clean(remarks(spoken.message))
        for number, part in enumerate(spoken.parts):
            if (index, number) in self._calls:
                yield self._calls[index, number]
            elif (index, number) not in self._answered:
                for text in self._text(part, spoken):
                    label = "\n".join(filter(None, (about, text.label)))
                    yield Text(text.text, label, text.part or Part(TEXT, text=part.text)) if about else text
                    about = ""

    def _text(self, part: Part, spoken: _Spoken) -> Iterator[Text]:
        """Yield a part that is text, or that has to be expressed as text."""
        if part.type == THINKING:
            self.note(Difference.THINKING)
        elif part.type == TEXT:
            yield from self._words(part.text, spoken)
        elif part.type == TOOL_CALL:
            self.note(Difference.CALL_AS_TEXT)
            value = self._input(part.input) if part.input is not None else ""
            words = json.dumps(value, ensure_ascii=False) if value else ""
            yield Text(words, f"[call of {one_line(self._clean(part.name)) or 'a tool'}]", part)
        elif part.type == TOOL_RESULT:
            self.note(Difference.RESULT_AS_TEXT)
            name = one_line(self._clean(part.name)) or "a tool"
            failed = ", which failed" if part.is_error else ""
            yield Text(self._clean(part.output), f"[result of a call of {name} that was not recorded{failed}]", part)
        else:
            facts = ", ".join(one_line(self._clean(fact)) for fact in (part.name, part.ref, part.media_type) if fact)
            label = f"[{one_line(self._clean(part.type))}: {facts or 'no name'}]"
            if isinstance(part, Picture) and spoken.role in self._images_in:
                self.images += 1
                yield Image("", label, part)
                return
            self.note({IMAGE: Difference.IMAGE, FILE: Difference.FILE}.get(part.type, Difference.PART))
            yield Text(self._clean(part.text), label, part)

    def _words(self, text: str, spoken: _Spoken) -> Iterator[Text]:
        if not text:
            return
        if text.isspace():
            self.note(Difference.BLANK)
            yield Text("", f"[text: {json.dumps(text, ensure_ascii=False)}]", Part(TEXT, text=text))
        elif spoken.message.role == TOOL and not any(part.type == TOOL_RESULT for part in spoken.parts):
            self.note(Difference.RESULT_AS_TEXT)
            yield Text(self._clean(text), "[result of a call that was not recorded]", Part(TEXT, text=text))
        elif spoken.message.role == SYSTEM and (name := instructions_of(spoken.message)):
            self.note(Difference.INSTRUCTIONS)
            label = f"[what {one_line(self._clean(name))} told the model, not the user's words]"
            yield Text(self._clean(text), label, Part(TEXT, text=text))
        elif spoken.message.role == SYSTEM:
            self.note(Difference.SYSTEM)
            yield Text(self._clean(text), SYSTEM_NOTE, Part(TEXT, text=text))
        else:
            yield Text(self._clean(text))

    def _result(self, position: _Position) -> Result:
        part = self._part(position)
        call = self._calls[self._answered[position]]
        return Result(call, self._clean(part.output), part.is_error, part, self._spoken[position[0]].message)

    def _part(self, position: _Position) -> Part:
        return self._spoken[position[0]].parts[position[1]]

    def _clean(self, text: str) -> str:
        cleaned = whole_characters(text)
        if cleaned != text:
            self.note(Difference.CHARACTER)
        return cleaned

    def _clean_value(self, value: Any) -> Any:
        """Return a value that JSON can represent."""
        if isinstance(value, str):
            return self._clean(value)
        if isinstance(value, dict):
            return {self._clean(str(name)): self._clean_value(item) for name, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._clean_value(item) for item in value]
        if isinstance(value, float) and not math.isfinite(value):
            return str(value)
        return value if value is None or isinstance(value, bool | int | float) else self._clean(str(value))


_Position = tuple[int, int]  # index of the message, index of the part


class _Spoken:
    """A message with all its content as parts, and the role in which it takes part."""

    def __init__(self, message: Message) -> None:
        self.message = message
        self.parts = parts_of(message)
        kinds = [part.type for part in self.parts if part.type != THINKING]
        only_results = bool(kinds) and all(kind == TOOL_RESULT for kind in kinds)
        self.role = TOOL if only_results else message.role


def parts_of(message: Message) -> list[Part]:
    """Return everything in a message as parts: its content is one of them, unless the parts already contain it."""
    parts = list(message.parts or ())
    content = message.content
    if not content or content == joined_text(parts):
        return parts
    if message.role == TOOL and (content == _answered_text(parts) or any(content == part.output for part in parts)):
        return parts
    return [Part(TEXT, text=content), *(part for part in parts if part.type != TEXT or part.text not in content)]


def essence(message: Message) -> tuple[Any, ...]:
    """Return what must not get lost of a message: role, text, calls and their results, images and files."""
    parts = parts_of(message)
    return (
        message.role,
        joined_text(parts),
        [(part.id, part.name, part.input) for part in parts if part.type == TOOL_CALL],
        [(part.call_id, part.output, part.is_error) for part in parts if part.type == TOOL_RESULT],
        [part.ref for part in parts if part.type in (IMAGE, FILE)],
    )


def _answered_text(parts: list[Part]) -> str:
    """Return the text of a tool message with these parts."""
    return Message(role=TOOL, parts=parts).text


def runs(turns: Sequence[Turn]) -> Iterator[list[Turn]]:
    """Yield the turns for a tool that wants each answer of the assistant whole, directly followed by its results.

    Turns of the assistant in a row come together, all others on their own.
    """
    run: list[Turn] = []
    for turn in turns:
        if run and not (turn.role == run[-1].role == ASSISTANT):
            yield run
            run = []
        run.append(turn)
    if run:
        yield run


def tool_name(name: str) -> str:
    """Return the name without anything that a model API rejects."""
    if _TOOL_NAME.fullmatch(name):
        return name
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:64] or "tool"
    return plain if _TOOL_NAME.fullmatch(plain) else f"tool_{plain}"[:64]


def whole_characters(text: str) -> str:
    """Return the text with lone surrogates (a truncated emoji) replaced: no file and no request can contain them."""
    if text.isascii():
        return text
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def standalone(message: Message) -> Message:
    """Return a message without its position in the thread and with encodable text, as a native session stores it."""
    message = msgspec.structs.replace(message, seq=-1, parent="")
    if any(isinstance(part, Picture) for part in message.parts or ()):
        message.parts = [part.plain if isinstance(part, Picture) else part for part in message.parts or ()]
    try:
        msgspec.json.encode(message)
    except UnicodeEncodeError:
        text = json.dumps(msgspec.to_builtins(message), ensure_ascii=False)
        whole = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        message = msgspec.convert(json.loads(whole), Message)
    return message


def one_line(text: str) -> str:
    """Return a name that may appear in a label."""
    return " ".join(text.replace("[", "(").replace("]", ")").split())


def is_shallow(value: Any) -> bool:
    """Whether a value is nested less deeply than programs can handle. Not recursive: recursion is what would fail."""
    level, depth = [value], 0
    while level and depth <= DEEPEST:
        deeper: list[Any] = []
        for here in level:
            deeper += here.values() if isinstance(here, dict) else here if isinstance(here, list | tuple) else ()
        level, depth = deeper, depth + 1
    return not level
