"""Find messages in a journal without reading all of it: from the end, or by sequence number.

Both rely on the sequence numbers in the lines. If a line has none, or is damaged, the journal is read from the start
instead, which is slower and always correct.
"""

from __future__ import annotations

import os
from collections import deque

import msgspec

from cortext.io import durable
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
    """Return the last `count` messages of a file; `first_seq` is the sequence number of its first if that has none."""
    if count <= 0:
        return []
    try:
        descriptor = durable.open_file(path, os.O_RDONLY)
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
    """Read backwards in steps; None if an irregular line is found on the way."""
    found: list[Message] = []
    file_end = end
    size = TAIL_BLOCK
    while end > 0 and len(found) < count:
        start = max(0, end - size)
        block = os.pread(descriptor, end - start, start)
        if start:  # begin at the start of a line
            newline = block.find(b"\n", 0, len(block) - 1)
            if newline >= 0:
                start += newline + 1
                block = block[newline + 1 :]
            else:  # the last line is longer than the block
                start = line_start(descriptor, start)
                if end - start > MAX_LINE:
                    return None
                block = os.pread(descriptor, end - start, start)
        messages = plain_messages(block)
        if messages is None or (found and messages and messages[-1].seq >= found[0].seq):
            return None
        found = messages + found
        # Estimate the size of the missing messages from those found so far, with a margin.
        estimate = (file_end - start) * (count - len(found)) // max(1, len(found)) * 9 // 8
        size = max(TAIL_BLOCK, min(estimate, 16 * BLOCK))
        end = start
    return found[-count:]


def line_start(descriptor: int, offset: int) -> int:
    """Return the offset of the line that contains the byte before `offset`."""
    while offset > 0:
        start = max(0, offset - TAIL_BLOCK)
        newline = os.pread(descriptor, offset - start, start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        offset = start
    return 0


def plain_messages(block: bytes) -> list[Message] | None:
    """Return the messages of a block of lines; None if one has no id or sequence number, or is out of order."""
    found = decode_plain(block, line_decoder)
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
    """Return the offset of a line at or before message `seq`, from which a reading can start. 0 is always correct."""
    if seq <= 0:
        return 0
    end = os.fstat(descriptor).st_size
    low, high = 0, end
    while high - low > BLOCK:
        middle = (low + high) // 2
        line_offset = middle - 1 + line_length(descriptor, middle - 1, middle - 1, end)  # the first from there on
        if line_offset >= high:  # a long line: no other begins in between
            high = middle
            continue
        found = _first_message_from(descriptor, line_offset, end)
        if found is None:
            return 0
        offset, message = found
        if message.seq < 0 or not message.id:
            return 0
        if message.seq <= seq:
            low = offset
        else:
            high = middle
    return low


def _first_message_from(descriptor: int, line_offset: int, end: int) -> tuple[int, StoredOutline] | None:
    """Return the first message whose line begins at this offset or later, with its offset; None if one is irregular."""
    for start, block, length in blocks(descriptor, line_offset, end, TAIL_BLOCK, LONG):
        lines = shortened(descriptor, start, length) if block is None and length <= MAX_LINE else block
        if lines is None:
            return None
        for raw in split_lines(lines):
            if not raw.endswith(b"\n"):
                return None
            try:
                message = outline_decoder.decode(raw)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                return None
            if is_message(message):
                return line_offset, message
            line_offset += len(raw)
        line_offset = start + length
    return None
