"""A conversation as every provider accepts it: our messages, put in order once, for all of them.

    user and assistant take turns; the user is first and last; neighbours of one role are one turn
    a call is answered in the very next turn, first thing there; one that was never answered says so
    a result without a call is a word of the user's side; thinking and empty texts stay out

Ids of calls are made anew (`call00001`: nine letters and digits pass everywhere), names of tools too where they
have signs that a provider refuses. A system message of the history is data like the rest, never system text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from cortext.errors import UsageError
from cortext.llm import images
from cortext.llm.base import Request
from cortext.model.message import ASSISTANT, IMAGE, SYSTEM, TEXT, THINKING, TOOL_CALL, TOOL_RESULT, USER, Message, Part

OPENING = "[the conversation goes on]"
GO_ON = "[go on]"
NO_RESULT = "[no result of this call was recorded]"
NO_OUTPUT = "(no output)"
TOO_DEEP = "[left out: nested too deep to be sent]"
NOTE = "[a note of the program, not the user's words]\n"

_DEEPEST = 100
_NAME = re.compile(r"[^A-Za-z0-9_-]")


class Words(msgspec.Struct, frozen=True):
    """A text; never empty, never only blanks."""

    text: str


class Image(msgspec.Struct, frozen=True):
    """An image that is at hand: its bytes and what they are."""

    media_type: str
    data: bytes


class Called(msgspec.Struct, frozen=True):
    """A tool that the assistant called."""

    id: str
    name: str
    input: dict[str, Any]


class Answered(msgspec.Struct, frozen=True):
    """What that tool answered."""

    id: str
    name: str
    output: str
    is_error: bool


Block = Words | Image | Called | Answered


class Turn(msgspec.Struct):
    """One turn of one side; `blocks` is never empty."""

    role: str
    blocks: list[Any]

    @property
    def is_plain(self) -> bool:
        """Whether it is just words."""
        return all(type(block) is Words for block in self.blocks)

    @property
    def text(self) -> str:
        """Its words, a blank line between."""
        return "\n\n".join(block.text for block in self.blocks if isinstance(block, Words))

    @property
    def images(self) -> list[Image]:
        """Its images."""
        return [block for block in self.blocks if isinstance(block, Image)]

    @property
    def calls(self) -> list[Called]:
        """The tools that it calls."""
        return [block for block in self.blocks if isinstance(block, Called)]

    @property
    def answers(self) -> list[Answered]:
        """The results that it brings."""
        return [block for block in self.blocks if isinstance(block, Answered)]


def as_chat(
    request: Request,
    assistant: Callable[[Turn], list[dict[str, Any]]],
    user: Callable[[Turn], list[dict[str, Any]]],
) -> list[dict[str, Any]]:
    """The request as chat messages, the system text first; what is more than words is the provider's affair."""
    told: list[dict[str, Any]] = []
    if request.system.strip():
        told.append({"role": "system", "content": sendable(request.system)})
    for turn in turns(request):
        if turn.is_plain:
            told.append({"role": turn.role, "content": turn.text})
        else:
            told += assistant(turn) if turn.role == "assistant" else user(turn)
    return told


def turns(request: Request, *, with_images: bool = True) -> list[Turn]:
    """The messages of a request as turns that every provider accepts."""
    merged = _merged(_sides(request.messages, with_images))
    if not merged:
        raise UsageError("there is nothing to ask: the conversation is empty", hint="say something first")
    if any(isinstance(block, Part) for turn in merged for block in turn.blocks):
        # Pairing takes results away from where they stood, so turns may be empty or neighbours then.
        merged = _merged((turn.role, block) for turn in _paired(merged) for block in turn.blocks)
    if merged[0].role == ASSISTANT:
        merged.insert(0, Turn(USER, [Words(OPENING)]))
    if merged[-1].role == ASSISTANT:
        merged.append(Turn(USER, [Words(GO_ON)]))
    return merged


def tool_name(name: str) -> str:
    """The name with nothing in it that a provider refuses."""
    clean = _NAME.sub("_", name)[:64] or "tool"
    return clean if clean[0].isalpha() or clean[0] == "_" else f"_{clean[:63]}"


def tool_names(request: Request) -> dict[str, str]:
    """The names that the model knows our tools by, and ours."""
    return {tool_name(tool.name): tool.name for tool in request.tools}


def sendable(text: str) -> str:
    """The text as UTF-8 can say it: half a surrogate pair (a cut emoji) becomes a question mark."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


# ── how ──────────────────────────────────────────────────────────────────────────────────────────────


def _sides(messages: Iterable[Message], with_images: bool) -> Iterable[tuple[str, Block | Part]]:
    """Every block with the side that it belongs to; calls and results still as parts, by their own ids."""
    for message in messages:
        if message.partial or message.aside:
            continue
        side = ASSISTANT if message.role == ASSISTANT else USER
        if not message.parts and message.role != SYSTEM:  # nearly all of them
            if message.content and not message.content.isspace():
                yield side, Words(sendable(message.content))
            continue
        for part in _parts(message):
            if part.type == TOOL_CALL:
                yield ASSISTANT, part
            elif part.type == TOOL_RESULT:
                yield USER, part
            elif part.type == TEXT:
                if part.text.strip():
                    note = NOTE if message.role == SYSTEM else ""
                    yield side, Words(note + sendable(part.text))
            elif part.type != THINKING:
                yield side, _attachment(part, read=with_images and side == USER)


def _parts(message: Message) -> list[Part]:
    parts = list(message.parts or ())
    if message.content and not any(part.type == TEXT and part.text for part in parts):
        parts.insert(0, Part(TEXT, text=message.content))
    return parts


def _attachment(part: Part, *, read: bool) -> Block:
    """An image that we can read, or a word about what was there."""
    if part.type == IMAGE and read:
        found = images.read(part.ref)
        if found is not None:
            return Image(*found)
    label = " ".join(word for word in (part.name, part.ref) if word) or part.media_type or "no name"
    return Words(sendable(f"[{part.type}: {label}]"))


def _merged(blocks: Iterable[tuple[str, Any]]) -> list[Any]:
    merged: list[Turn] = []
    for role, block in blocks:
        if not merged or merged[-1].role != role:
            merged.append(Turn(role, []))
        merged[-1].blocks.append(block)
    return merged


def _paired(merged: list[Turn]) -> list[Turn]:
    """Every call with its answer right behind it; results that answer nothing become words."""
    answers, taken = _matched(merged)
    paired: list[Turn] = []
    number = 0
    for turn in merged:
        if turn.role == USER:
            paired.append(Turn(USER, [_kept(block) for block in turn.blocks if id(block) not in taken]))
            continue
        said: list[Block] = []
        answered: list[Block] = []
        for block in turn.blocks:
            if isinstance(block, Part):
                number += 1
                call = Called(f"call{number:05}", tool_name(block.name), _input(block.input))
                said.append(call)
                answered.append(_answer(call, answers.get(id(block))))
            else:
                said.append(block)
        paired += [Turn(ASSISTANT, said), Turn(USER, answered)]
    return paired


def _matched(merged: list[Turn]) -> tuple[dict[int, Part], set[int]]:
    """The result of each call (by the call's identity), and which results were given to one.

    An id may occur again later (some models count from one in every turn): the oldest open call gets it.
    """
    waiting: dict[str, list[Part]] = {}
    answers: dict[int, Part] = {}
    taken: set[int] = set()
    for turn in merged:
        for block in turn.blocks:
            if not isinstance(block, Part):
                continue
            if block.type == TOOL_CALL:
                waiting.setdefault(block.id, []).append(block)
            elif calls := waiting.get(block.call_id):
                answers[id(calls.pop(0))] = block
                taken.add(id(block))
    return answers, taken


def _answer(call: Called, part: Part | None) -> Answered:
    if part is None:
        return Answered(call.id, call.name, NO_RESULT, True)
    return Answered(call.id, call.name, sendable(part.output) or NO_OUTPUT, part.is_error)


def _kept(block: Block | Part) -> Block:
    if not isinstance(block, Part):
        return block
    name = block.name or "a tool"
    return Words(sendable(f"[result of {name}]\n{block.output or NO_OUTPUT}"))


def _input(value: Any) -> dict[str, Any]:
    if value is None:
        return {}
    if not _is_shallow(value):
        return {"input": TOO_DEEP}
    return value if isinstance(value, dict) else {"input": value}


def _is_shallow(value: Any) -> bool:
    """Whether it is nested less deep than the libraries can follow. No recursion: that is what fails here."""
    level, depth = [value], 0
    while level and depth <= _DEEPEST:
        deeper: list[Any] = []
        for here in level:
            deeper += here.values() if isinstance(here, dict) else here if isinstance(here, list | tuple) else ()
        level, depth = deeper, depth + 1
    return not level
