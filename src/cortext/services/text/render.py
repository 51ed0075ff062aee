"""Messages as text for a model, delimited as data from a past conversation, not as instructions.

Every message is between fence lines with a random string that occurs nowhere in the conversation, and every stored
value goes through `safety/framing`. So nothing in it can imitate a delimiter, the end of the history, or a message.
Long tool results are cut to their beginning and their end, where errors are.
"""

from __future__ import annotations

import json

from cortext.model.message import IMAGE, TEXT, THINKING, TOOL_CALL, TOOL_RESULT, Message, Part, remarks
from cortext.model.wording import ends
from cortext.safety.framing import disarmed, label
from cortext.safety.secrets.masking import mask

SHORTENED = "tool result shortened"  # in a receipt
HEAD, TAIL = 300, 100  # characters that are kept
LEAST_CUT = 80  # characters: for fewer, the note of what is missing is not worth it
_WINDOW = 64_000  # characters at either end of a huge result that are masked; a secret is shorter


def shorten(output: str, head: int = HEAD, tail: int = TAIL) -> str:
    """Return the beginning and the end of a long tool result, with a note of what is missing.

    What is cut is masked before, because half a secret would not be recognised later.
    """
    if len(output) - head - tail < LEAST_CUT:
        return output
    if len(output) > 3 * _WINDOW:  # to mask all of it would take seconds for some megabytes
        first, last = mask(output[:_WINDOW]).text, mask(output[-_WINDOW:]).text
        # A window that is full of secrets shrinks, and the one that its edge cuts in two would come into view.
        if min(len(first), len(last)) > _WINDOW // 2:
            return _cut(first, last, len(output) - head - tail, head, tail)
    whole = mask(output).text
    missing = len(whole) - head - tail
    return whole if missing < LEAST_CUT else _cut(whole, whole, missing, head, tail)


def _cut(first: str, last: str, missing: int, head: int, tail: int) -> str:
    return ends(first[:head], last[len(last) - tail :], missing, "of this result ")


def heading(message: Message, fence: str) -> str:
    """Return the fence line above a message."""
    when = f" · {label(message.timestamp)}" if message.timestamp else ""
    return f"---{fence} message {message.seq} · {label(message.role)}{when}"


def body(message: Message, *, cut_results: bool = False) -> str:
    """Return the text and the tool calls of a message as text, without thinking."""
    about = remarks(message)
    if not message.parts:
        return disarmed("\n".join(filter(None, (about, message.content))))
    texts = [text for part in message.parts if (text := _part(part, cut_results=cut_results))]
    if message.content and not message.parts_of(TEXT):
        texts.insert(0, message.content)
    texts[:0] = [about] if about else []
    return disarmed("\n".join(texts))


def _part(part: Part, *, cut_results: bool) -> str:
    if part.type == TEXT:
        return part.text
    if part.type == TOOL_CALL:
        return f"[called {label(part.name)} with {json.dumps(part.input, ensure_ascii=False)}]"
    if part.type == TOOL_RESULT:
        output = shorten(part.output) if cut_results else part.output
        return f"[{label(part.name) or 'the tool'} {'failed' if part.is_error else 'answered'}]\n{output}"
    if part.type == IMAGE or part.ref:
        return "\n".join(filter(None, [f"[{label(part.type)}: {label(part.ref)}]", part.text]))
    return "" if part.type == THINKING else part.text
