"""A conversation as plain texts, for tools whose format has no tool calls: calls and results become labelled text."""

from __future__ import annotations

import json

import msgspec

from cortext.model.message import Message
from cortext.model.turns import Block, Call, Change, Result, Turns, one_line


class PlainTurn(msgspec.Struct):
    """What one message becomes; `message` is None if it was added."""

    role: str  # user or assistant
    text: str
    message: Message | None


def plain_turns(normal: Turns) -> list[PlainTurn]:
    """Return the turns as texts, and count in `normal` how many calls were turned into text."""
    if normal.tool_calls:
        normal.note(Change.CALLS_AS_TEXT, normal.tool_calls)
    return [PlainTurn(turn.role, "\n\n".join(map(_text, turn.blocks)), turn.message) for turn in normal.turns]


def _text(block: Block) -> str:
    """Return a block as text. The call's id is in both labels, because a tool may be called several times at once."""
    if isinstance(block, Call):
        return f"[call of {one_line(block.name)} ({block.id})]\n{json.dumps(block.input, ensure_ascii=False)}"
    if isinstance(block, Result):
        failed = ", which failed" if block.is_error else ""
        label = f"[result of the call of {one_line(block.call.name)} ({block.call.id}){failed}, not the user's words]"
        return f"{label}\n{block.output}" if block.output else label
    return block.whole
