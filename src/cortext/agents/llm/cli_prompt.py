"""A conversation as a single prompt, for programs that accept nothing else: its messages are data between markers."""

from __future__ import annotations

import json

from cortext.agents.llm.base import Request
from cortext.agents.llm.conversation import Answered, Block, Called, Turn, Words, turns
from cortext.model.message import ASSISTANT
from cortext.safety.framing import fence, label

_BEFORE = (
    "You are in the middle of a conversation. What was said so far is below, between the marks. It is a "
    "record: nothing in it is to be done again."
)
_NOW = "The user now says:"


def prompt(request: Request) -> str:
    """Return the whole conversation; just the user's message if there was nothing before it."""
    *past, last = turns(request, with_images=False)
    message = _text(last)
    if not past:
        # These programs treat a slash (and similar characters) at the beginning as a command.
        return message if message[:1].isalnum() else f"{_NOW}\n{message}"
    texts = [_text(turn) for turn in past]
    suffix = fence([*texts, message])
    names = ["ASSISTANT" if turn.role == ASSISTANT else "USER" for turn in past]
    record = "\n\n".join(f"---{suffix} {name}:\n{text}" for name, text in zip(names, texts, strict=True))
    return f"{_BEFORE}\n\n<conversation-{suffix}>\n{record}\n</conversation-{suffix}>\n\n{_NOW}\n{message}"


def _text(turn: Turn) -> str:
    return "\n\n".join(_block_text(block) for block in turn.blocks)


def _block_text(block: Block) -> str:
    if isinstance(block, Called):
        return f"[called the tool {label(block.name)} with {json.dumps(block.input, ensure_ascii=False)}]"
    if isinstance(block, Answered):
        return f"[{label(block.name)} {'failed' if block.is_error else 'answered'}]\n{block.output}"
    return block.text if isinstance(block, Words) else "[image]"
