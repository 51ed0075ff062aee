"""Messages as text for a model, delimited as data from a past conversation, not as instructions.

Every message is between fence lines with a random string that occurs nowhere in the conversation, and every stored
value goes through `safety/framing`. So nothing in it can imitate a delimiter, the end of the history, or a message.
"""

from __future__ import annotations

import json

from cortext.model.message import IMAGE, TEXT, THINKING, TOOL_CALL, TOOL_RESULT, Message, Part
from cortext.safety.framing import disarmed, field
from cortext.safety.secrets.masking import mask

# A tool result that was cut keeps its beginning and its end, where errors are.
CUT_HEAD = 300
CUT_TAIL = 100
LEAST_CUT = 80


def heading(message: Message, fence: str) -> str:
    """Return the fence line above a message."""
    when = f" · {field(message.timestamp)}" if message.timestamp else ""
    return f"---{fence} message {message.seq} · {field(message.role)}{when}"


def body(message: Message, *, cut_results: bool = False) -> str:
    """Return the text and the tool calls of a message as text, without thinking."""
    if not message.parts:
        return disarmed(message.content)
    texts = [text for part in message.parts if (text := _part(part, cut_results=cut_results))]
    if message.content and not message.parts_of(TEXT):
        texts.insert(0, message.content)
    return disarmed("\n".join(texts))


def _part(part: Part, *, cut_results: bool) -> str:
    if part.type == TEXT:
        return part.text
    if part.type == TOOL_CALL:
        return f"[called {field(part.name)} with {json.dumps(part.input, ensure_ascii=False)}]"
    if part.type == TOOL_RESULT:
        output = _shortened(part.output) if cut_results else part.output
        return f"[{field(part.name) or 'the tool'} {'failed' if part.is_error else 'answered'}]\n{output}"
    if part.type == IMAGE or part.ref:
        return f"[{field(part.type)}: {field(part.ref)}]"
    return "" if part.type == THINKING else part.text


def _shortened(output: str) -> str:
    """Shorten a result, masked first: half a secret could not be recognised later."""
    if len(output) - CUT_HEAD - CUT_TAIL < LEAST_CUT:
        return output

    return shorten(mask(output).text)


def shorten(output: str) -> str:
    """Return the beginning and the end of a long tool result, with a note of what is missing."""
    missing = len(output) - CUT_HEAD - CUT_TAIL
    if missing < LEAST_CUT:
        return output
    return f"{output[:CUT_HEAD]}\n[… {missing:,} characters of this result left out …]\n{output[-CUT_TAIL:]}"
