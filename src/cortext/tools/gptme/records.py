"""The lines of gptme's conversation.jsonl, with only the fields that we use."""

from __future__ import annotations

from typing import Any

import msgspec

from cortext.tools.shared.mark import Mark


class Metadata(msgspec.Struct, omit_defaults=True):
    """What gptme stores about a message. It keeps fields that it does not know, so our mark is one of them."""

    model: str = ""
    usage: dict[str, Any] | None = None
    tool: str = ""  # which tool a result is from
    cortext: Mark | None = None


class Record(msgspec.Struct, omit_defaults=True):
    """One message. A system message with a `call_id` is the result of that call."""

    role: str = ""
    content: str = ""
    timestamp: str = ""  # local time without a zone
    files: list[str] = []
    pinned: bool = False
    hide: bool = False
    ui_only: bool = False
    call_id: str | None = None
    metadata: Metadata | None = None


decoder = msgspec.json.Decoder(Record)
