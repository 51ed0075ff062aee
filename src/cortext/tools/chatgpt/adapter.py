"""The adapter for ChatGPT: the archive of `Settings → Data controls → Export data`."""

from __future__ import annotations

from typing import Any

import msgspec

from cortext.tools.base import Transcript, TranscriptReading
from cortext.tools.shared.exports import ExportTool, Raw
from cortext.tools.shared.values import milliseconds


class _Head(msgspec.Struct):
    """What the list needs; the rest of a conversation may be many megabytes."""

    mapping: msgspec.Raw
    conversation_id: str | None = None
    id: str | None = None
    update_time: Any = None
    create_time: Any = None


_decoder = msgspec.json.Decoder(_Head)


class ChatGpt(ExportTool):
    """The adapter for exports of ChatGPT; it only reads."""

    name = "chatgpt"
    title = "ChatGPT"
    marker = b'"mapping"'
    key_pattern = rb'"conversation_id"\s*:\s*"([^"\\]{1,100})"'

    def describe(self, raw: Raw) -> tuple[str, int] | None:
        """Return the id of a conversation and when it was changed; None if this is not one, or damaged."""
        try:
            head = _decoder.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None
        key = head.conversation_id or head.id or ""
        return (key, milliseconds(head.update_time or head.create_time)) if key else None

    def reading(self, transcript: Transcript, data: bytes) -> TranscriptReading:
        """Return the messages of one conversation."""
        from cortext.tools.chatgpt.read import ChatGptReading

        return ChatGptReading(transcript, data)
