"""Messages for these tests, and messages by their values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from cortext.model.message import Message, plain


def talk(count: int, start: int = 0) -> list[Message]:
    """The two sides in turn."""
    return [
        Message(role="user" if number % 2 == 0 else "assistant", content=f"message {number}: {'wörds ' * number}")
        for number in range(start, start + count)
    ]


def plains(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """Messages of any store, to be compared."""
    return [msgspec.to_builtins(plain(message)) for message in messages]
