"""A conversation as every provider accepts it: the normal form of `model/turns`, joined into turns that alternate.

    user and assistant take turns; the user is first and last; neighbours of one role are one turn
    a call is answered in the very next turn, first thing there

Ids of calls are numbers of our own (`call00001`: nine letters and digits pass everywhere). A system message of the
history is data like the rest, never system text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from cortext.errors import UsageError
from cortext.llm import images
from cortext.llm.base import Request
from cortext.model import turns as normal
from cortext.model.message import ASSISTANT, IMAGE, TEXT, USER
from cortext.model.turns import tool_name, whole_characters

GO_ON = "[go on]"
NO_OUTPUT = "(no output)"


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
        told.append({"role": "system", "content": whole_characters(request.system)})
    for turn in turns(request):
        if turn.is_plain:
            told.append({"role": turn.role, "content": turn.text})
        else:
            told += assistant(turn) if turn.role == "assistant" else user(turn)
    return told


def turns(request: Request, *, with_images: bool = True) -> list[Turn]:
    """The messages of a request as turns that every provider accepts."""
    joined: list[Turn] = []
    numbers: dict[str, str] = {}
    for turn in normal.Turns(request.messages).turns:
        blocks = list(_blocks(turn, numbers, with_images))
        if blocks and joined and joined[-1].role == turn.role:
            joined[-1].blocks += blocks
        elif blocks:
            joined.append(Turn(turn.role, blocks))
    if not any(turn.blocks != [Words(normal.OPENING)] for turn in joined):
        raise UsageError("there is nothing to ask: the conversation is empty", hint="say something first")
    if joined[0].role == ASSISTANT:
        joined.insert(0, Turn(USER, [Words(normal.OPENING)]))
    if joined[-1].role == ASSISTANT:
        joined.append(Turn(USER, [Words(GO_ON)]))
    return joined


def tool_names(request: Request) -> dict[str, str]:
    """The names that the model knows our tools by, and ours."""
    return {tool_name(tool.name): tool.name for tool in request.tools}


def _blocks(turn: normal.Turn, numbers: dict[str, str], with_images: bool) -> Iterator[Block]:
    for block in turn.blocks:
        if isinstance(block, normal.Call):
            numbers[block.id] = f"call{len(numbers) + 1:05}"
            yield Called(numbers[block.id], block.name, block.input)
        elif isinstance(block, normal.Result):
            yield Answered(numbers[block.call.id], block.call.name, block.output or NO_OUTPUT, block.is_error)
        elif block.part is None or block.part.type != TEXT or block.text:  # a blank text is not worth its quotation
            yield _image(block, turn.role, with_images) or Words(block.whole)


def _image(block: normal.Text, role: str, with_images: bool) -> Image | None:
    """The image that a note stands for, where it can be read."""
    if not with_images or role != USER or block.part is None or block.part.type != IMAGE:
        return None
    found = images.read(block.part.ref)
    return Image(*found) if found is not None else None
