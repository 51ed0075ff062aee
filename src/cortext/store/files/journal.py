"""Reading a journal: whole, from a place, from the end; what is damaged is told, never silently skipped.

The fast way decodes a block of lines at once. Where a block holds one line that is not plainly ours,
that block alone is taken line by line. Memory does not grow with the file: a block, or the longest line.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import cast

from msgspec.json import Decoder

from cortext.io import files as fsio
from cortext.io.jsonl import LONG, MAX_LINE, blocks, shortened, split_lines
from cortext.model.message import Message
from cortext.store.base import DISORDER, DOUBLED, NUMBER, TORN, UNREADABLE, Damage
from cortext.store.files.lines import (
    MAX_SEQ,
    MESSAGE_TYPES,
    NO_OBJECT,
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


class JournalReading:
    """The messages of one file in order; `damage` fills up on the way (see base.Reading).

    It may begin at the offset of any line and stop before another. `first_seq` is the number that the
    first message has if it does not say itself. `seek` finds the start in the file that was opened (by then
    the path may name another). A message that stands in the `archive` too is left out. With `outline` the
    messages come without their words (capabilities.Outlines), and only those that need a closer look come whole.
    With `brief` texts of many megabytes come cut (capabilities.Skims): a long line is never in memory then, unless
    it is damaged.
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
        self._begin()

    def _begin(self) -> None:
        """Every iteration is a new reading."""
        self.damage = []
        self._last = self._first - 1
        self._ids: set[str] | None = None
        self._archived: set[str] = set()

    def __iter__(self) -> Iterator[Message]:
        for batch in self.batches():
            yield from batch

    def batches(self) -> Iterator[list[Message]]:
        """The messages, a block at a time (the quick way to take in very many)."""
        try:
            descriptor = fsio.open_file(self.path, os.O_RDONLY)
        except FileNotFoundError:
            return
        yield from self.batches_of(descriptor)

    def batches_of(self, descriptor: int) -> Iterator[list[Message]]:
        """The same from a file that is open already; it is closed at the end."""
        self._begin()
        try:
            if self._seek is not None:
                self._start = self._seek(descriptor)
            end = os.fstat(descriptor).st_size
            end = min(end, self._end or end)
            for offset, piece, length in blocks(descriptor, self._start, end, longest=self._longest):
                if piece is None and length <= MAX_LINE:
                    short = shortened(descriptor, offset, length)
                    batch = self._quickly(short) if short is not None else None
                    if batch is not None:
                        yield batch
                        continue
                    piece = os.pread(descriptor, length, offset)
                if piece is None:
                    kind = UNREADABLE if os.pread(descriptor, 1, offset + length - 1) == b"\n" else TORN
                    self._add(offset, length, kind, f"a line of {length:,} bytes; {MAX_LINE:,} is the limit")
                    continue
                batch = self._quickly(piece)
                yield self._line_by_line(offset, piece) if batch is None else batch
        finally:
            os.close(descriptor)

    @property
    def last_seq(self) -> int:
        """The number of the last message so far; -1 before the first."""
        return self._last

    def _quickly(self, piece: bytes) -> list[Message] | None:
        """Decode many lines at once; None where one of them wants a closer look."""
        # What asks for an outline looks at nothing else, so to the type checker it may be the message.
        decoder = cast("Decoder[StoredMessage]", outline_decoder) if self._outline else line_decoder
        found = decode_plain(piece, decoder)
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

    def _line_by_line(self, offset: int, piece: bytes) -> list[Message]:
        batch: list[Message] = []
        for raw in split_lines(piece):
            if raw.strip():
                self._take(offset, raw, batch)
            offset += len(raw)
        return batch

    def _take(self, offset: int, raw: bytes, batch: list[Message]) -> None:
        if not begins_record(raw):
            kind = UNREADABLE if raw.endswith(b"\n") else TORN
            self._add(offset, len(raw), kind, NO_OBJECT if kind == UNREADABLE else "an incomplete last line")
            return
        try:
            before = len(batch)
            self._number(offset, raw, decode_line(raw), batch)
            if len(batch) > before and (fields := impossible_numbers(raw)):
                self._add(offset, len(raw), NUMBER, f"{' and '.join(fields)} out of range: read as missing")
            return
        except BadLine as error:
            reason = str(error)
        records, rest, why = salvage(raw)
        so_far = len(self.damage)
        for record, piece in records:
            self._number(offset, piece, record, batch)
        del self.damage[so_far:]  # what is wrong with a line is told once, as one thing
        if not raw.endswith(b"\n") and not records:
            self._add(offset, len(raw), TORN, "an incomplete last line")
        elif rest or not records:
            self._add(offset, len(raw), UNREADABLE, why if records else reason)
        else:
            self._add(offset, len(raw), UNREADABLE, "records glued together or padded")

    def _number(self, offset: int, raw: bytes, message: StoredMessage, batch: list[Message]) -> None:
        """Give the message its place; one that is there already is told and left out."""
        if not is_message(message):
            return
        if not message.role:
            raise BadLine("no role: not a message")
        if not 0 <= message.seq < MAX_SEQ:
            message.seq = self._last + 1
        elif message.seq <= self._last:
            if message.id and message.id in self._known_ids(offset, batch):
                if message.id not in self._archived:  # there, it is the trace of an interrupted compaction
                    self._add(offset, len(raw), DOUBLED, f"message {message.id} is there already")
                return
            self._add(offset, len(raw), DISORDER, f"number {message.seq} comes after {self._last}")
            message.seq = self._last + 1
        if not message.id:
            message.id = derived_id(message.seq, raw)
        self._last = message.seq
        if self._ids is not None:
            self._ids.add(message.id)
        batch.append(message)

    def _known_ids(self, offset: int, batch: list[Message]) -> set[str]:
        """Every id before this place. Gathered only once numbers go wrong, because it costs memory."""
        if self._ids is None:
            # No number went wrong before this offset, so this second reading does not come here itself.
            before = JournalReading(self.path, self._start, end=offset, first_seq=self._first) if offset else ()
            if self._archive:
                self._archived = {message.id for message in JournalReading(self._archive)}
            self._ids = self._archived | {message.id for message in before} | {message.id for message in batch}
        return self._ids

    def _add(self, offset: int, length: int, kind: str, reason: str) -> None:
        self.damage.append(Damage(self._name, offset, length, kind, reason))
