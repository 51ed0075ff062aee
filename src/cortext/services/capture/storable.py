"""What of a tool's words can be stored: the one gate between the adapters and our stores.

A record that cannot become a message is counted and left out; what is odd about one that can is put right. Neither
costs the records around it anything: the tool's own form, which is kept beside our log, has them as they were.
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

_encode = msgspec.json.Encoder().encode
_AROUND = 4  # levels of a stored message around what a part holds


def storable(reading: TranscriptReading, before: Message | None = None) -> Iterator[Message]:
    """The messages of a reading that a store takes; `before` is the one that was stored last, if there is one."""
    moment = before.timestamp if before is not None else ""
    last = (before.id, before.role, before.content) if before is not None else ("", "", "")
    for message in reading:
        counts = reading.counts  # not before: a reading begins a new count when it begins
        if is_empty_message(message):
            note(counts.skipped, WITHOUT_CONTENT)
            continue
        if message.role not in ROLES:
            note(counts.damaged, "unknown role")
            continue
        if message.timestamp and not normalise(message.timestamp):
            note(counts.damaged, "not a time")
            message.timestamp = moment
        moment = message.timestamp or moment
        if message.tokens is not None or message.usage is not None:
            _count_in_range(message, counts)
        if message.parts is not None:
            _flatten(message, counts)
        if not message.content.isascii() or message.parts is not None:
            _without_lone_surrogates(message)
        if message.extra is not None and deeper_than(message.extra, MAX_DEPTH - _AROUND):
            note(counts.damaged, "nested too deeply")
            message.extra = None
        here = message.id, message.role, message.content
        if here[0] == last[0] and here != last:
            note(counts.damaged, "id used twice")
            # Made from the words, so that it is the same at every reading.
            message.id = f"{message.id}~{derived_id(*here)}"
        last = here
        yield message


def _without_lone_surrogates(message: Message) -> None:
    """Half a surrogate pair (a text that was cut inside an emoji) is no character: no UTF-8 can hold it."""
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
    """Numbers that no database takes are no counts."""
    tokens, usage = message.tokens, message.usage
    if (tokens is None or counted(tokens) is not None) and (usage is None or _is_sound(usage)):
        return
    note(counts.damaged, "token count out of range")
    message.usage = None
    message.tokens = counted(tokens)  # without one it is estimated


def _is_sound(value: Any) -> bool:
    """Whether all numbers in what a provider told about an answer are in range, at whatever depth they stand."""
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
    """What is nested deeper than a line of ours may be becomes a text: the call itself stays."""
    for part in message.parts or ():
        for name in ("input", "data"):
            value = getattr(part, name)
            if type(value) in (dict, list) and deeper_than(value, MAX_DEPTH - _AROUND):
                note(counts.damaged, "nested too deeply")
                try:
                    setattr(part, name, msgspec.json.encode(value).decode("utf-8"))
                except (RecursionError, ValueError, TypeError):
                    setattr(part, name, None)
