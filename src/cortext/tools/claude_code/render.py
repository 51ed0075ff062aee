"""The turns of a conversation as the content of Claude Code's records.

What the program does to a foreign history (tried on the real one, 2.1.325): an answer of the model is put together by
`message.id`, so consecutive messages of the assistant share one; a result that does not follow its call is dropped;
an assistant's text "(no content)" vanishes. The model's interface refuses an error without a text.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from cortext.model.message import ASSISTANT, Message
from cortext.model.turns import Block, Call, Change, Result, Turns

Json = dict[str, Any]

_DROPPED = "(no content)"
_EMPTY_ERROR = "[an error without a text]"


class Rendered(NamedTuple):
    """One record to be: whose it is, its content, and the message that it is made from (None: it was added)."""

    role: str
    blocks: list[Json]
    message: Message | None


class Rendering:
    """What to write for a sequence of messages, and what is not as it was."""

    def __init__(self, messages: Sequence[Message]) -> None:
        self.normal = Turns(messages)
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
