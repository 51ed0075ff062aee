"""Finding a place in a journal without reading all of it: from the end, or by sequence number.

Both trust the numbers in the lines. Where a line on the way has none, or is damaged, they give up and
the caller reads from the start: slower, and never wrong.
"""

from __future__ import annotations

import os
from collections import deque

import msgspec

from cortext.io import files as fsio
from cortext.io.jsonl import BLOCK, LONG, MAX_LINE, blocks, line_length, shortened, split_lines
from cortext.model.message import Message
from cortext.store.files.journal import JournalReading
from cortext.store.files.lines import (
    MAX_SEQ,
    MESSAGE_TYPES,
    StoredOutline,
    decode_plain,
    is_message,
    line_decoder,
    outline_decoder,
)

TAIL_BLOCK = 1 << 16


def tail(path: str, count: int, first_seq: int = 0) -> list[Message]:
    """The last `count` messages of a file; `first_seq` is the number of its first, if that does not say."""
    if count <= 0:
        return []
    try:
        descriptor = fsio.open_file(path, os.O_RDONLY)
    except FileNotFoundError:
        return []
    try:
        found = _tail_of(descriptor, os.fstat(descriptor).st_size, count)
    finally:
        os.close(descriptor)
    if found is None:
        return list(deque(JournalReading(path, first_seq=first_seq), maxlen=count))
    return found


def _tail_of(descriptor: int, end: int, count: int) -> list[Message] | None:
    """Read backwards in steps; None where something on the way is not plainly ours."""
    found: list[Message] = []
    bottom = end
    size = TAIL_BLOCK
    while end > 0 and len(found) < count:
        start = max(0, end - size)
        piece = os.pread(descriptor, end - start, start)
        if start:  # begin at a whole line
            newline = piece.find(b"\n", 0, len(piece) - 1)
            if newline >= 0:
                start += newline + 1
                piece = piece[newline + 1 :]
            else:  # the last line is longer than this
                start = line_start(descriptor, start)
                if end - start > MAX_LINE:
                    return None
                piece = os.pread(descriptor, end - start, start)
        messages = plain_messages(piece)
        if messages is None or (found and messages and messages[-1].seq >= found[0].seq):
            return None
        found = messages + found
        # Aim at what is missing by what was found so far, and a bit more.
        aim = (bottom - start) * (count - len(found)) // max(1, len(found)) * 9 // 8
        size = max(TAIL_BLOCK, min(aim, 16 * BLOCK))
        end = start
    return found[-count:]


def line_start(descriptor: int, position: int) -> int:
    """Where the line begins that holds the byte before `position`."""
    while position > 0:
        start = max(0, position - TAIL_BLOCK)
        newline = os.pread(descriptor, position - start, start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        position = start
    return 0


def plain_messages(piece: bytes) -> list[Message] | None:
    """The messages of some lines, if every one is plainly ours: numbered, in order, with an id."""
    found = decode_plain(piece, line_decoder)
    if found is None:
        return None
    messages: list[Message] = []
    last = -1
    for message in found:
        if message.type not in MESSAGE_TYPES and not is_message(message):
            continue
        if not last < message.seq < MAX_SEQ or not message.id or not message.role:
            return None
        last = message.seq
        messages.append(message)
    return messages


def offset_of(descriptor: int, seq: int) -> int:
    """An offset at or before the line of message `seq`: where a reading of it may begin. 0 is always right."""
    if seq <= 0:
        return 0
    low, high = 0, os.fstat(descriptor).st_size
    while high - low > BLOCK:
        middle = (low + high) // 2
        found = _first_message_after(descriptor, middle, high)
        if found is None:
            return 0
        place, message = found
        if message.seq < 0 or not message.id:
            return 0
        if message.seq <= seq:
            if place == low:
                break
            low = place
        else:
            high = middle
    return low


def _first_message_after(descriptor: int, offset: int, end: int) -> tuple[int, StoredOutline] | None:
    """The first message whose line begins after `offset`; None where it is not to be had plainly."""
    place = offset + line_length(descriptor, offset, offset, end)
    for start, block, length in blocks(descriptor, place, end, TAIL_BLOCK, LONG):
        piece = shortened(descriptor, start, length) if block is None and length <= MAX_LINE else block
        if piece is None:
            return None
        for raw in split_lines(piece):
            if not raw.endswith(b"\n"):
                return None
            try:
                message = outline_decoder.decode(raw)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                return None
            if is_message(message):
                return place, message
            place += len(raw)
        place = start + length
    return None
