"""The one gate between the adapters and our stores: which messages of a transcript can be stored, and in what form.

A message that cannot be stored is counted and left out; invalid values in one that can be are corrected and counted.
Neither affects the messages around it. The copy of the transcript next to our log has all of them unchanged.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from cortext.model.clock import normalise
from cortext.model.message import ROLES, Message, is_empty_message
from cortext.model.tokens import MOST, counted
from cortext.store.files.lines import MAX_DEPTH, deeper_than
from cortext.tools.base import Counts, TranscriptReading
from cortext.tools.shared.lines import WITHOUT_CONTENT as WITHOUT_CONTENT
from cortext.tools.shared.lines import derived_id, note, without_lone_surrogates

# What is corrected in a message that is stored all the same; its original is in the copy of the transcript.
CORRECTED = frozenset(("not a time", "token count out of range", "nested too deeply", "id used twice"))
_encode = msgspec.json.Encoder().encode
_LEVELS_ABOVE = 4  # nesting levels of a stored message above the value of a part


def storable(reading: TranscriptReading, before: Message | None = None) -> Iterator[Message]:
    """Yield the messages of a reading that can be stored; `before` is the one that was stored last, if any."""
    latest = before.timestamp if before is not None else ""
    last = (before.id, before.role, before.content) if before is not None else ("", "", "")
    for message in reading:
        counts = reading.counts  # not earlier: a reading makes new counts when it begins
        if is_empty_message(message):
            note(counts.skipped, WITHOUT_CONTENT)
            continue
        if message.role not in ROLES:
            note(counts.damaged, "unknown role")
            continue
        if message.timestamp and not normalise(message.timestamp):
            note(counts.damaged, "not a time")
            message.timestamp = latest
        latest = message.timestamp or latest
        if message.tokens is not None or message.usage is not None:
            _count_in_range(message, counts)
        if message.parts is not None:
            _flatten(message, counts)
        if not message.content.isascii() or message.parts is not None:
            _without_lone_surrogates(message)
        if message.extra is not None and deeper_than(message.extra, MAX_DEPTH - _LEVELS_ABOVE):
            note(counts.damaged, "nested too deeply")
            message.extra = None
        current = message.id, message.role, message.content
        if current[0] == last[0] and current != last:
            note(counts.damaged, "id used twice")
            # Derived from the text, so that it is the same at every reading.
            message.id = f"{message.id}~{derived_id(*current)}"
        last = current
        yield message


def _without_lone_surrogates(message: Message) -> None:
    """Replace half surrogate pairs (from a text that was cut inside an emoji), which UTF-8 cannot encode."""
    try:
        message.content.encode("utf-8")
        for part in message.parts or ():
            part.text.encode("utf-8")
            part.output.encode("utf-8")
            if part.input is not None:
                _encode(part.input)
    except UnicodeEncodeError:
        message.content = without_lone_surrogates(message.content)
        for part in message.parts or ():
            part.text, part.output = without_lone_surrogates(part.text), without_lone_surrogates(part.output)
            part.input = without_lone_surrogates(part.input)


def _count_in_range(message: Message, counts: Counts) -> None:
    """Drop token counts that are too large for a database, or negative."""
    tokens, usage = message.tokens, message.usage
    if (tokens is None or counted(tokens) is not None) and (usage is None or _is_sound(usage)):
        return
    note(counts.damaged, "token count out of range")
    message.usage = None
    message.tokens = counted(tokens)  # None is estimated later


def _is_sound(value: Any) -> bool:
    """Whether all numbers in a provider's usage record are in range, at any depth."""
    todo = [value]
    for _ in range(MAX_DEPTH):
        if not todo:
            return True
        if any(type(item) in (int, float) and not 0 <= item <= MOST for item in todo):
            return False
        todo = [
            inner
            for item in todo
            if isinstance(item, dict | list)
            for inner in (item.values() if isinstance(item, dict) else item)
        ]
    return False


def _flatten(message: Message, counts: Counts) -> None:
    """Replace values that are nested too deeply for our log by their JSON text; the tool call itself stays."""
    for part in message.parts or ():
        for name in ("input", "data"):
            value = getattr(part, name)
            if type(value) in (dict, list) and deeper_than(value, MAX_DEPTH - _LEVELS_ABOVE):
                note(counts.damaged, "nested too deeply")
                try:
                    setattr(part, name, msgspec.json.encode(value).decode("utf-8"))
                except (RecursionError, ValueError, TypeError):
                    setattr(part, name, None)
