"""The field that we add to native records, so that a conversation is captured again exactly as it was written."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import msgspec

from cortext.model.message import Message
from cortext.model.turns import essence, standalone


class Mark(msgspec.Struct, omit_defaults=True, gc=False):
    """Which message a native record was made from, and what the tool's format cannot represent.

    `added` says that the record represents no message of the conversation. `was` is the original message, if the record
    lost something; `role` and `timestamp` are the original ones, if they had to change. Adapters add their own fields.
    """

    id: str = ""
    role: str = ""
    timestamp: str = ""
    model: str = ""
    tokens: int | None = None
    usage: dict[str, Any] | None = None
    was: Any = None
    added: bool | str = False  # "yes" in sessions of Claude Code that earlier versions wrote

    def original(self) -> Message | None:
        """Return the original message; None if it is not stored. Raise msgspec.ValidationError if it was edited."""
        return msgspec.convert(self.was, Message) if self.was is not None else None

    @classmethod
    def made_from(cls, message: Message | None, literal: Message) -> Self:
        """Return the mark of a record, which without the mark would be read as `literal`."""
        if message is None:
            return cls(added=True)
        return cls(
            id=message.id,
            model=message.model,
            timestamp=message.timestamp if message.timestamp != literal.timestamp else "",
            tokens=message.tokens,
            usage=message.usage,
            was=msgspec.to_builtins(message) if essence(literal) != essence(message) else None,
        )

    def restored(self, literal: Message, damaged: dict[str, int]) -> Message:
        """Return the message that a record was made from, as far as the mark is intact; count it if it was edited."""
        try:
            message = self.original() or literal
        except msgspec.ValidationError:
            damaged["unexpected shape"] = damaged.get("unexpected shape", 0) + 1
            message = literal
        message.id = self.id or message.id
        message.model, message.tokens, message.usage = self.model, self.tokens, self.usage
        message.timestamp = self.timestamp or literal.timestamp
        return message


class RunMark(Mark, omit_defaults=True, gc=False):
    """The mark of a record that may stand for several messages, such as a run of messages of the assistant.

    `messages` are the originals then, and also if one message became several records, of which all but the first are
    `added`.
    """

    messages: list[Any] | None = None

    @classmethod
    def made_from_all(cls, messages: Sequence[Message]) -> Self:
        """Return the mark of a record that was made from these messages, which it cannot tell apart."""
        if not messages:
            return cls(added=True)
        return cls(messages=[msgspec.to_builtins(standalone(message)) for message in messages])

    def all_restored(self, literal: Message, damaged: dict[str, int]) -> list[Message]:
        """Return the messages that a record was made from."""
        if self.messages is None:
            return [self.restored(literal, damaged)]
        return msgspec.convert(self.messages, list[Message])
