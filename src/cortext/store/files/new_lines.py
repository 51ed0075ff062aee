"""The lines of a new session: byte for byte what `lines.encode_message` makes of `log.complete`, in half of the time.

A long text is put into its line as it was encoded, without a second pass over it for the blanks after commas.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from cortext.model import clock
from cortext.model.message import ROLES, TOOL_RESULT, Message
from cortext.model.tokens import estimate
from cortext.store.files.lines import MAX_DEPTH, SHORT, encode_message
from cortext.store.files.log import complete, same_again

LONG = 2048
_encode = msgspec.json.Encoder().encode
_format = msgspec.json.format
_HEADS = {role: b'{"role": "%b"' % role.encode("ascii") for role in ROLES}


class NewLines:
    """Numbers messages from 0 and makes their lines; counts what the metadata tells. The messages become ours."""

    def __init__(self) -> None:
        self.count = 0
        self.tokens = 0
        self.last = ""  # the latest time of a message
        self._before: Message | None = None

    def lines(self, messages: Sequence[Message]) -> bytes:
        """The lines of the next messages."""
        made: list[bytes] = []
        before, normalise = self._before, clock.normalise
        for message in messages:
            if before is not None and message.id == before.id and same_again(message, before):
                continue
            line = None
            if message.id and message.role in _HEADS and normalise(message.timestamp) == message.timestamp:
                message.seq = self.count
                line = _quickly(message)
            if line is None:
                message = complete(message, self.count)
                line = encode_message(message)
            made.append(line)
            self.count += 1
            self.tokens += message.tokens or 0
            if message.timestamp > self.last:
                self.last = message.timestamp
            before = message
        self._before = before
        return b"".join(made)


def _quickly(message: Message) -> bytes | None:
    """The line of a message that lacks nothing but its size; None where the general way has to look at it."""
    text, parts = message.content, message.parts
    if not text:
        if not parts:
            return None
        text = parts[0].output if len(parts) == 1 and parts[0].type == TOOL_RESULT else message.text
    try:
        if len(text) >= LONG:
            return _around(text, message)
        if message.tokens is None:
            message.tokens = estimate(text)
        return _spaced(message, len(text))
    except (TypeError, ValueError, RecursionError):  # what is wrong with it is told there
        return None


def _around(text: str, message: Message) -> bytes | None:
    """The line of a message with a long text: that is taken out, and put in where it belongs."""
    if len(text) > SHORT:
        return None
    words = _encode(text)
    if message.tokens is None:
        message.tokens = estimate(text)  # after it was encoded, which leaves it in the form that this needs
    parts = message.parts
    if message.content:
        message.content = ""
        try:
            rest, head = _spaced(message, 0), _HEADS[message.role]
        finally:
            message.content = text
        return rest and b'%b, "content": %b%b' % (head, words, rest[len(head) :])
    if parts is not None and len(parts) == 1 and parts[0].output == text:
        parts[0].output = ""
        try:
            rest = _spaced(message, 0)
        finally:
            parts[0].output = text
        if rest and rest.endswith(b'"}]}\n'):  # nothing comes after the output
            return b'%b, "output": %b}]}\n' % (rest[:-4], words)
    return _spaced(message, len(text))


def _spaced(message: Message, text: int) -> bytes | None:
    """The general way for what is not nested too deeply: so many brackets beside a text of that length do not fit."""
    raw = _encode(message)
    if len(raw) - text > 2 * MAX_DEPTH + 60 and raw.count(b"[") + raw.count(b"{") > MAX_DEPTH:
        return None
    return _format(raw, indent=0) + b"\n"
