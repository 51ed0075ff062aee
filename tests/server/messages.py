"""Messages for the tests of the PostgreSQL store, and their comparison by value."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from cortext.model.message import Message, plain


def turns(count: int, start: int = 0) -> list[Message]:
    """Return `count` messages, the user's and the assistant's in turn."""
    return [
        Message(role="user" if number % 2 == 0 else "assistant", content=f"message {number}: {'wörds ' * number}")
        for number in range(start, start + count)
    ]


def as_dicts(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """Return the messages of any store as dictionaries, for comparison."""
    return [msgspec.to_builtins(plain(message)) for message in messages]
