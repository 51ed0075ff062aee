"""A conversation as every provider accepts it: the normal form of `model/turns`, merged into alternating turns.

    user and assistant alternate; the user is first and last; adjacent messages of one role are one turn
    a call is answered in the very next turn, at its beginning

Call ids are our own numbers (`call00001`: nine letters and digits are accepted everywhere). A system message in the
history is data like the rest, never system text. An image is sent if its reference is a local file and really one.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from cortext.agents.llm.base import Request
from cortext.errors import UsageError
from cortext.io import durable
from cortext.model import turns
from cortext.model.message import ASSISTANT, IMAGE, TEXT, USER, image_type
from cortext.model.turns import tool_name, whole_characters

GO_ON = "[go on]"
NO_OUTPUT = "(no output)"


class TextBlock(msgspec.Struct, frozen=True):
    """A text; never empty and never only whitespace."""

    text: str


class ImageBlock(msgspec.Struct, frozen=True):
    """An available image: its bytes and their type."""

    media_type: str
    data: bytes


class CallBlock(msgspec.Struct, frozen=True):
    """A tool call by the assistant."""

    id: str
    name: str
    input: dict[str, Any]


class ResultBlock(msgspec.Struct, frozen=True):
    """The result of that call."""

    id: str
    name: str
    output: str
    is_error: bool


Block = TextBlock | ImageBlock | CallBlock | ResultBlock


class ChatTurn(msgspec.Struct):
    """One turn of one side; `blocks` is never empty."""

    role: str
    blocks: list[Any]

    @property
    def is_plain(self) -> bool:
        """Whether it is only text."""
        return all(type(block) is TextBlock for block in self.blocks)

    @property
    def text(self) -> str:
        """Its text, separated by blank lines."""
        return "\n\n".join(block.text for block in self.blocks if isinstance(block, TextBlock))

    @property
    def images(self) -> list[ImageBlock]:
        """Its images."""
        return [block for block in self.blocks if isinstance(block, ImageBlock)]

    @property
    def calls(self) -> list[CallBlock]:
        """Its tool calls."""
        return [block for block in self.blocks if isinstance(block, CallBlock)]

    @property
    def answers(self) -> list[ResultBlock]:
        """Its tool results."""
        return [block for block in self.blocks if isinstance(block, ResultBlock)]


def as_chat(
    request: Request,
    assistant: Callable[[ChatTurn], list[dict[str, Any]]],
    user: Callable[[ChatTurn], list[dict[str, Any]]],
) -> list[dict[str, Any]]:
    """Return the request as chat messages, the system text first; the callbacks render turns that are not only text."""
    messages: list[dict[str, Any]] = []
    if request.system.strip():
        messages.append({"role": "system", "content": whole_characters(request.system)})
    for turn in turns_of_request(request):
        if turn.is_plain:
            messages.append({"role": turn.role, "content": turn.text})
        else:
            messages += assistant(turn) if turn.role == "assistant" else user(turn)
    return messages


def turns_of_request(request: Request, *, with_images: bool = True) -> list[ChatTurn]:
    """Return the messages of a request as turns that every provider accepts."""
    joined: list[ChatTurn] = []
    numbers: dict[str, str] = {}
    for turn in turns.Turns(request.messages).turns:
        blocks = list(_blocks(turn, numbers, with_images))
        if blocks and joined and joined[-1].role == turn.role:
            joined[-1].blocks += blocks
        elif blocks:
            joined.append(ChatTurn(turn.role, blocks))
    if not any(turn.blocks != [TextBlock(turns.OPENING)] for turn in joined):
        raise UsageError("nothing to ask: the conversation is empty", hint="write a message first")
    if joined[0].role == ASSISTANT:
        joined.insert(0, ChatTurn(USER, [TextBlock(turns.OPENING)]))
    if joined[-1].role == ASSISTANT:
        joined.append(ChatTurn(USER, [TextBlock(GO_ON)]))
    return joined


def tool_names(request: Request) -> dict[str, str]:
    """Return our tool names by the names that the model knows."""
    return {tool_name(tool.name): tool.name for tool in request.tools}


def _blocks(turn: turns.Turn, numbers: dict[str, str], with_images: bool) -> Iterator[Block]:
    for block in turn.blocks:
        if isinstance(block, turns.Call):
            numbers[block.id] = f"call{len(numbers) + 1:05}"
            yield CallBlock(numbers[block.id], block.name, block.input)
        elif isinstance(block, turns.Result):
            yield ResultBlock(numbers[block.call.id], block.call.name, block.output or NO_OUTPUT, block.is_error)
        elif block.part is None or block.part.type != TEXT or block.text:  # a blank text is not worth quoting
            yield _image(block, turn.role, with_images) or TextBlock(block.whole)


def _image(block: turns.Text, role: str, with_images: bool) -> ImageBlock | None:
    """Return the image that a note stands for, if it can be read."""
    if not with_images or role != USER or block.part is None or block.part.type != IMAGE:
        return None
    found = read(block.part.ref)
    return ImageBlock(*found) if found is not None else None


LARGEST = 5_000_000  # bytes; the smallest limit of all providers


def read(ref: str) -> tuple[str, bytes] | None:
    """Return the media type and bytes of an image file, or None for anything else.

    The reference may come from a stranger's transcript: a file that does not begin like an image is not sent.
    """
    if not os.path.isabs(ref) or "\0" in ref:
        return None
    try:
        data = durable.read_file(ref, LARGEST)
    except OSError:
        return None
    kind = image_type(data)
    return (kind, data) if kind else None
