"""The field that we add to native records, so that a conversation is captured again exactly as it was written."""

from __future__ import annotations

from typing import Any

import msgspec

from cortext.model.message import Message


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
