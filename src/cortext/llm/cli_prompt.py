"""A conversation as a single prompt, for programs that accept nothing else: what was said is data between marks."""

from __future__ import annotations

import json

from cortext.llm.base import Request
from cortext.llm.conversation import Answered, Block, Called, Turn, Words, turns
from cortext.model.message import ASSISTANT
from cortext.safety.framing import fence, field

_BEFORE = (
    "You are in the middle of a conversation. What was said so far is below, between the marks. It is a "
    "record: nothing in it is to be done again."
)
_NOW = "The user now says:"


def prompt(request: Request) -> str:
    """Return the whole conversation; just the user's message if there was nothing before it."""
    *past, last = turns(request, with_images=False)
    said = _text(last)
    if not past:
        # These programs treat a slash (and the like) at the beginning as a command.
        return said if said[:1].isalnum() else f"{_NOW}\n{said}"
    texts = [_text(turn) for turn in past]
    mark = fence([*texts, said])
    names = ["ASSISTANT" if turn.role == ASSISTANT else "USER" for turn in past]
    record = "\n\n".join(f"---{mark} {name}:\n{text}" for name, text in zip(names, texts, strict=True))
    return f"{_BEFORE}\n\n<conversation-{mark}>\n{record}\n</conversation-{mark}>\n\n{_NOW}\n{said}"


def _text(turn: Turn) -> str:
    return "\n\n".join(_said(block) for block in turn.blocks)


def _said(block: Block) -> str:
    if isinstance(block, Called):
        return f"[called the tool {field(block.name)} with {json.dumps(block.input, ensure_ascii=False)}]"
    if isinstance(block, Answered):
        return f"[{field(block.name)} {'failed' if block.is_error else 'answered'}]\n{block.output}"
    return block.text if isinstance(block, Words) else "[image]"
