"""Our own field in the sessions that we write into a tool's store, so that a conversation comes back as it left."""

from __future__ import annotations

from typing import Any

import msgspec

from cortext.model.message import Message


class Mark(msgspec.Struct, omit_defaults=True, gc=False):
    """Which message a native record was made from, and what the tool's format cannot hold of it.

    `added` says that the record stands for no message of ours, `was` is the message as it was where the record says
    less, `role` and `timestamp` are given where they had to change. An adapter adds what only its format needs.
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
        """The message as it was; None where none is kept. msgspec.ValidationError where somebody changed it."""
        return msgspec.convert(self.was, Message) if self.was is not None else None
