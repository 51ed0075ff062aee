"""Renders the turns of a conversation as the content of Claude Code's records.

How Claude Code treats a session that it did not write (tested with 2.1.325): it joins the assistant's records by
`message.id`, so consecutive assistant messages share one; it drops a tool result that does not follow its call, and an
assistant's text "(no content)". The model's API rejects an error without text.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from cortext.model.message import ASSISTANT, TOOL, USER, Message
from cortext.model.turns import Block, Call, Change, Image, Result, Turns

Json = dict[str, Any]

_DROPPED = "(no content)"
_EMPTY_ERROR = "[error without a message]"


class Rendered(NamedTuple):
    """One record to write: its role, its content, and the message it comes from (None: it was added)."""

    role: str
    blocks: list[Json]
    message: Message | None


class Rendering:
    """The records for a sequence of messages; `normal` counts what had to change."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self.normal = Turns(messages, images_in=(USER, TOOL))
        self.records = [
            Rendered(turn.role, [self._block(block, turn.role) for block in turn.blocks], turn.message)
            for turn in self.normal.turns
        ]

    def _block(self, block: Block, role: str) -> Json:
        if isinstance(block, Call):
            return {"type": "tool_use", "id": block.id, "name": block.name, "input": block.input}
        if isinstance(block, Result):
            return {
                "type": "tool_result",
                "tool_use_id": block.call.id,
                "content": self._output(block),
                "is_error": block.is_error,
            }
        if isinstance(block, Image):
            source = {"type": "base64", "media_type": block.picture.kind, "data": block.picture.base64}
            return {"type": "image", "source": source}
        text = block.whole
        if role == ASSISTANT and text.strip() == _DROPPED:
            self.normal.note(Change.QUOTED)
            text = f"[text: {json.dumps(text)}]"
        return {"type": "text", "text": text}

    def _output(self, result: Result) -> str:
        if result.is_error and not result.output.strip():
            self.normal.note(Change.ERROR_NAMED)
            return _EMPTY_ERROR
        return result.output
