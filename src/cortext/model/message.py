"""A message: what was said, by whom, when; and what else crossed (calls, results, images, thinking)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, TypeVar

import msgspec

USER = "user"
ASSISTANT = "assistant"
SYSTEM = "system"
TOOL = "tool"
ROLES = (USER, ASSISTANT, SYSTEM, TOOL)

TEXT = "text"
THINKING = "thinking"
TOOL_CALL = "tool_call"
TOOL_RESULT = "tool_result"
IMAGE = "image"
FILE = "file"

# In the `extra` of a message: the name of what a person gave the model to read with a prompt.
ATTACHMENT = "attachment"

# The `parent` of a message that follows none: the talk went back to before its first message, and began anew.
BEGINNING = "(beginning)"


class Part(msgspec.Struct, omit_defaults=True):
    """One piece of a message that is more than a plain text. Which fields are used depends on `type`:

    text, thinking: text.          tool_call: id, name, input.
    tool_result: call_id, name, output, is_error.          image, file: ref, media_type, name.
    `data` holds what a tool wrote that fits nowhere else.
    """

    type: str
    text: str = ""
    id: str = ""
    name: str = ""
    input: Any = None
    call_id: str = ""
    output: str = ""
    is_error: bool = False
    ref: str = ""
    media_type: str = ""
    data: Any = None


class Message(msgspec.Struct, omit_defaults=True, kw_only=True):
    """One line of a journal. The order of the fields is the order of the keys in the file.

    `seq` is the place in the session, from 0, given by the store; `id` never changes.
    `tokens` is the size of this message: told by the provider where `usage` is there, else estimated.
    `parent` is the id of the message that this one follows, where that is not the one before it in the file
    (the talk went back and took another way). `partial` marks a reply that was cut off, `aside` what was not
    part of the talk itself (a side agent's work): both are kept, and stay out of the context.
    """

    role: str
    content: str = ""
    timestamp: str = ""
    tokens: int | None = None
    id: str = ""
    seq: int = -1
    model: str = ""
    parts: list[Part] | None = None
    usage: dict[str, Any] | None = None
    parent: str = ""
    partial: bool = False
    aside: bool = False
    extra: dict[str, Any] | None = None

    @property
    def text(self) -> str:
        """The plain text, always there: what was said, or what the tools answered."""
        if self.content or not self.parts:
            return self.content
        pieces = (
            part.output if part.type == TOOL_RESULT else part.text
            for part in self.parts
            if part.type in (TEXT, TOOL_RESULT)
        )
        return "\n\n".join(piece for piece in pieces if piece)

    def parts_of(self, kind: str) -> list[Part]:
        """The parts of one type, in order."""
        return [part for part in self.parts or () if part.type == kind]


class Outline(Protocol):
    """A message without its words: enough to know the thread, and what would fit."""

    @property
    def id(self) -> str: ...
    @property
    def seq(self) -> int: ...
    @property
    def role(self) -> str: ...
    @property
    def timestamp(self) -> str: ...
    @property
    def tokens(self) -> int | None: ...
    @property
    def parent(self) -> str: ...
    @property
    def partial(self) -> bool: ...
    @property
    def aside(self) -> bool: ...


Placed = TypeVar("Placed", bound=Outline)


def holds_nothing(message: Message) -> bool:
    """Whether there is nothing in a message: no words, no call, no result, no picture."""
    if message.content:
        return False
    return not message.parts or all(part.type == TEXT and not part.text for part in message.parts)


def attachments_in(messages: Iterable[Message]) -> int:
    """How many of these messages are files and pictures that a person attached."""
    return sum(1 for message in messages if message.extra is not None and ATTACHMENT in message.extra)


def said(parts: list[Part]) -> str:
    """The `content` that belongs to these parts: their texts, a blank line between."""
    return "\n\n".join(part.text for part in parts if part.type == TEXT and part.text)


def plain(message: Message) -> Message:
    """The message as itself: a store may hand out a kind of its own, which would not be equal to it."""
    return Message(  # each by its name, which takes a third of the time of a loop over them
        role=message.role,
        content=message.content,
        timestamp=message.timestamp,
        tokens=message.tokens,
        id=message.id,
        seq=message.seq,
        model=message.model,
        parts=message.parts,
        usage=message.usage,
        parent=message.parent,
        partial=message.partial,
        aside=message.aside,
        extra=message.extra,
    )


def thread(messages: Iterable[Placed]) -> list[Placed]:
    """The talk as it stands: from the last message back by `parent`, without cut replies and asides."""
    kept = [message for message in messages if not message.aside]
    if any(message.parent for message in kept):
        places = {message.id: place for place, message in enumerate(kept)}
        way: list[Placed] = []
        place = len(kept) - 1
        while place >= 0:
            message = kept[place]
            way.append(message)
            # A parent is always earlier: a file that says otherwise must not send us round in a circle.
            before = places.get(message.parent, place - 1) if message.parent else place - 1
            place = -1 if message.parent == BEGINNING else before if before < place else place - 1
        kept = way[::-1]
    return [message for message in kept if not message.partial]
