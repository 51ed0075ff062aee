"""What we note in the records that we write for Codex."""

from __future__ import annotations

from typing import Any

import msgspec


class Mark(msgspec.Struct, omit_defaults=True, gc=False):
    """Our own field in the records that we write: whose record this is, and what the format could not hold.

    `of` says how many records the message has, `more` that this is not the first of them; `was` is the
    message as it was, where the native form says less; `added` marks a record that we had to make up.
    """

    id: str = ""
    of: int = 1
    more: bool = False
    model: str = ""
    tokens: int | None = None
    usage: dict[str, Any] | None = None
    was: Any = None
    added: bool = False
    title: str = ""
