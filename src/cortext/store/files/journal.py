"""Read a journal: all of it, or from an offset. Damage is reported, never silently skipped.

The fast path decodes a block of lines at once. Only a block with an irregular line is decoded line by line. Memory does
not grow with the file: it holds one block, or the longest line.

The end, or a message by its number, is found without reading all of it, by the sequence numbers in the lines. If a line
has none, or is damaged, the journal is read from the start instead, which is slower and always correct.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from typing import cast

import msgspec
from msgspec.json import Decoder

from cortext.io import durable
from cortext.io.jsonl import BLOCK, LONG, MAX_LINE, blocks, line_length, shortened, split_lines
from cortext.model.message import Message
from cortext.store.base import DISORDER, DOUBLED, NUMBER, TORN, UNREADABLE, Damage
from cortext.store.files.lines import (
    MAX_SEQ,
    MESSAGE_TYPES,
    NO_OBJECT,
    NO_ROLE,
    BadLine,
    StoredMessage,
    StoredOutline,
    begins_record,
    decode_line,
    decode_plain,
    derived_id,
    impossible_numbers,
    is_message,
    line_decoder,
    outline_decoder,
    salvage,
)

INCOMPLETE = "an incomplete last line"

TAIL_BLOCK = 1 << 16


class JournalReading:
    """The messages of one file in order; `damage` is filled during the iteration (see base.Reading).

    `start` and `end` are offsets of lines. `first_seq` is the sequence number of the first message if its line has
    none. `seek` returns the start offset, given the open file (by then the path may name another file). A message that
    is also in the `archive` is left out. With `outline` messages have no text (capabilities.Outlines), except those of
    irregular lines. With `brief` texts of many megabytes are truncated (capabilities.Skims): a long line is then in
    memory only if it is damaged.
    """

    def __init__(
        self,
        path: str,
        start: int = 0,
        *,
        end: int | None = None,
        first_seq: int = 0,
        archive: str = "",
        seek: Callable[[int], int] | None = None,
        outline: bool = False,
        brief: bool = False,
    ) -> None:
        self.path = path
        self.damage: list[Damage] = []
        self._name = os.path.basename(path)
        self._start = start
        self._end = end
        self._first = first_seq
        self._archive = archive
        self._seek = seek
        self._outline = outline
        self._longest = LONG if brief or outline else 0
        self._reset()

    def _reset(self) -> None:
        self.damage = []
        self._last = self._first - 1
        self._ids: set[str] | None = None
        self._archived: set[str] = set()

    def __iter__(self) -> Iterator[Message]:
        for batch in self.batches():
            yield from batch

    def batches(self) -> Iterator[list[Message]]:
        """Return the messages in batches, one per block: faster than one by one."""
        try:
            descriptor = durable.open_file(self.path, os.O_RDONLY)
        except FileNotFoundError:
            return
        yield from self.batches_of(descriptor)

    def batches_of(self, descriptor: int) -> Iterator[list[Message]]:
        """Return the batches of a file that is already open; it is closed at the end."""
        self._reset()
        try:
            if self._seek is not None:
                self._start = self._seek(descriptor)
            end = os.fstat(descriptor).st_size
            end = min(end, self._end or end)
            for offset, block, length in blocks(descriptor, self._start, end, longest=self._longest):
                if block is None and length <= MAX_LINE:
                    short = shortened(descriptor, offset, length)
                    batch = self._decode_block(short) if short is not None else None
                    if batch is not None:
                        yield batch
                        continue
                    block = os.pread(descriptor, length, offset)
                if block is None:
                    kind = UNREADABLE if os.pread(descriptor, 1, offset + length - 1) == b"\n" else TORN
                    self._add_damage(offset, length, kind, f"a line of {length:,} bytes; the limit is {MAX_LINE:,}")
                    continue
                batch = self._decode_block(block)
                yield self._decode_each_line(offset, block) if batch is None else batch
        finally:
            os.close(descriptor)

    @property
    def last_seq(self) -> int:
        """The sequence number of the last message so far; -1 before the first."""
        return self._last

    def _decode_block(self, block: bytes) -> list[Message] | None:
        """Decode many lines at once; None if one of them is irregular."""
        # Callers that ask for an outline use no other fields, so the type checker may see a message.
        decoder = cast("Decoder[StoredMessage]", outline_decoder) if self._outline else line_decoder
        found = decode_plain(block, decoder)
        if found is None:
            return None
        batch: list[Message] = []
        last = self._last
        for message in found:
            if message.type not in MESSAGE_TYPES and not is_message(message):
                continue
            if not last < message.seq < MAX_SEQ or not message.id or not message.role:
                return None
            last = message.seq
            batch.append(message)
        self._last = last
        if self._ids is not None:
            self._ids.update(message.id for message in batch)
        return batch

    def _decode_each_line(self, offset: int, block: bytes) -> list[Message]:
        batch: list[Message] = []
        for raw in split_lines(block):
            if raw.strip():
                self._decode_line(offset, raw, batch)
            offset += len(raw)
        return batch

    def _decode_line(self, offset: int, raw: bytes, batch: list[Message]) -> None:
        if not begins_record(raw):
            kind = UNREADABLE if raw.endswith(b"\n") else TORN
            self._add_damage(offset, len(raw), kind, NO_OBJECT if kind == UNREADABLE else INCOMPLETE)
            return
        try:
            before = len(batch)
            self._add_message(offset, raw, decode_line(raw), batch)
            if len(batch) > before and (fields := impossible_numbers(raw)):
                self._add_damage(offset, len(raw), NUMBER, f"{' and '.join(fields)} out of range: treated as missing")
            return
        except BadLine as error:
            reason = str(error)
        records, rest, rest_reason = salvage(raw)
        damage_before = len(self.damage)
        for record, record_bytes in records:
            self._add_message(offset, record_bytes, record, batch)
        del self.damage[damage_before:]  # one line is reported once
        if not raw.endswith(b"\n") and not records:
            self._add_damage(offset, len(raw), TORN, INCOMPLETE)
        elif rest or not records:
            self._add_damage(offset, len(raw), UNREADABLE, rest_reason if records else reason)
        else:
            self._add_damage(offset, len(raw), UNREADABLE, "several records on one line, or padding around a record")

    def _add_message(self, offset: int, raw: bytes, message: StoredMessage, batch: list[Message]) -> None:
        """Append the message with its sequence number; a duplicate is reported and left out."""
        if not is_message(message):
            return
        if not message.role:
            raise BadLine(NO_ROLE)
        if not 0 <= message.seq < MAX_SEQ:
            message.seq = self._last + 1
        elif message.seq <= self._last:
            if message.id and message.id in self._known_ids(offset, batch):
                if message.id not in self._archived:  # an archived one was left by an interrupted compaction
                    self._add_damage(offset, len(raw), DOUBLED, f"duplicate of message {message.id}")
                return
            self._add_damage(offset, len(raw), DISORDER, f"sequence number {message.seq} after {self._last}")
            message.seq = self._last + 1
        if not message.id:
            message.id = derived_id(message.seq, raw)
        self._last = message.seq
        if self._ids is not None:
            self._ids.add(message.id)
        batch.append(message)

    def _known_ids(self, offset: int, batch: list[Message]) -> set[str]:
        """Return every id before this offset. Collected only when a sequence number is wrong, to save memory."""
        if self._ids is None:
            # Sequence numbers before this offset are in order, so this second reading does not recurse.
            before = JournalReading(self.path, self._start, end=offset, first_seq=self._first) if offset else ()
            if self._archive:
                self._archived = {message.id for message in JournalReading(self._archive)}
            self._ids = self._archived | {message.id for message in before} | {message.id for message in batch}
        return self._ids

    def _add_damage(self, offset: int, length: int, kind: str, reason: str) -> None:
        self.damage.append(Damage(self._name, offset, length, kind, reason))


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
