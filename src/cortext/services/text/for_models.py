"""Messages as a model gets them: as text, delimited as data from a past conversation, or disarmed; long texts cut.

In a text every message is between fence lines with a random string that occurs nowhere in the conversation, and every
stored value goes through `safety/framing`. So nothing in it can imitate a delimiter, the end of the history, or a
message. Long tool results are cut to their beginning and their end, where errors are.
"""

from __future__ import annotations

import json

from msgspec.structs import replace

from cortext.model.message import IMAGE, TEXT, THINKING, TOOL_CALL, TOOL_RESULT, Message, Part, remarks
from cortext.model.wording import ends
from cortext.safety.framing import control_disarmed, disarmed, label
from cortext.safety.secrets.masking import mask
from cortext.services.text.message_masking import AnyStruct, change_struct

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


def disarm(struct: AnyStruct) -> AnyStruct:
    """Return a message or a session for a model, in which no text imitates our delimiters."""
    return change_struct(struct, disarmed)


def disarm_control(message: Message, program: str) -> tuple[Message, int]:
    """Return a message for this program, in which no text is control text of its own, and how much was disarmed."""
    count = 0

    def change(text: str) -> str:
        nonlocal count
        text, number = control_disarmed(text, program)
        count += number
        return text

    said = replace(message, extra=None)  # not the names of what is stored with it
    changed = change_struct(said, change)
    return (replace(changed, extra=message.extra), count) if count else (message, 0)


def cut_texts(struct: AnyStruct, head: int, tail: int) -> AnyStruct:
    """Return a masked message or session in which a longer text has only so many characters at its beginning and end.

    For what is derived from texts of any size. It does not say what is missing; mask first: half a secret has no
    recognisable form.
    """
    return change_struct(struct, lambda text: text if len(text) <= head + tail else _ends(text, head, tail))


def _ends(text: str, head: int, tail: int) -> str:
    """Return the beginning and the end of a text, both without the word that the cut would leave half of."""
    start, end = text[:head], text[len(text) - tail :]
    kept = max(start.rfind(" "), start.rfind("\n"))
    first = min((at for at in (end.find(" "), end.find("\n")) if at >= 0), default=0)
    return f"{start[:kept] if kept > head // 2 else start}\n{end[first:] if first < tail // 2 else end}"
