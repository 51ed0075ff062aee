"""Read a journal: all of it, or from an offset. Damage is reported, never silently skipped.

The fast path decodes a block of lines at once. Only a block with an irregular line is decoded line by line. Memory does
not grow with the file: it holds one block, or the longest line.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import cast

from msgspec.json import Decoder

from cortext.io import durable
from cortext.io.jsonl import LONG, MAX_LINE, blocks, shortened, split_lines
from cortext.model.message import Message
from cortext.store.base import DISORDER, DOUBLED, NUMBER, TORN, UNREADABLE, Damage
from cortext.store.files.lines import (
    MAX_SEQ,
    MESSAGE_TYPES,
    NO_OBJECT,
    NO_ROLE,
    BadLine,
    StoredMessage,
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
