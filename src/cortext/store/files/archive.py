"""Older messages, moved out of the working log into an archive beside it; crash-safe at every step.

The order is: append to the archive and flush, then replace the log by what is left. Between the two a
message stands in both files, with the same number, and a reading shows the one in the log: a crash may
have torn holes into the other. So a crash at any point loses nothing; the next compaction cuts the archive
back to where the log begins, and starts over.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from cortext.errors import DamagedData
from cortext.io import files as fsio
from cortext.io.jsonl import blocks, split_lines
from cortext.model.message import Message
from cortext.store.base import Damage
from cortext.store.files.journal import JournalReading
from cortext.store.files.lines import BadLine, StoredMessage, coerce, decode_line, decode_value, derived_id, encode
from cortext.store.files.log import OpenLog
from cortext.store.files.seek import offset_of, plain_messages, tail

BATCH = 1 << 20


def exists(path: str) -> bool:
    """Whether there is an archive."""
    return bool(path) and os.path.lexists(path)


def first_seq(archive: str, log: str) -> int:
    """The number that the first message of the log has if it does not say itself."""
    first = _first_message(log)
    if first is not None and first.seq >= 0:
        return first.seq
    return next_seq(archive)


def next_seq(archive: str) -> int:
    """The number after the last message of the archive: 0 where there is none."""
    last = tail(archive, 1) if exists(archive) else []
    return last[0].seq + 1 if last else 0


def _first_message(log: str) -> StoredMessage | None:
    try:
        descriptor = fsio.open_file(log, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        return _first_of(descriptor)
    finally:
        os.close(descriptor)


def _first_of(descriptor: int) -> StoredMessage | None:
    for _, piece, _ in blocks(descriptor, 0, min(BATCH, os.fstat(descriptor).st_size)):
        for raw in split_lines(piece or b""):
            try:
                message = decode_line(raw)
            except BadLine:
                continue
            if message.role:
                return message
    return None


def repeats_from(archive: str, descriptor: int) -> int:
    """The number from which on the archive only repeats this open log, because a compaction was interrupted.

    -1 where it does not: what another program numbered anew is no repetition, and must not be left out.
    """
    first = _first_of(descriptor)
    last = tail(archive, 1)
    if first is None or first.seq < 0 or not last or last[0].seq < first.seq:
        return -1
    log = {message.id for batch in JournalReading("").batches_of(os.dup(descriptor)) for message in batch}
    again = {message.id for message in JournalReading(archive) if message.seq >= first.seq}
    return first.seq if again <= log else -1


def before_log(archive: str, log: str) -> tuple[int, str]:
    """How to read the log after its archive: the number it begins with, and the archive if it may repeat that."""
    try:
        descriptor = fsio.open_file(log, os.O_RDONLY)
    except FileNotFoundError:
        return next_seq(archive), archive
    try:
        repeated = repeats_from(archive, descriptor)
    finally:
        os.close(descriptor)
    return (repeated, "") if repeated >= 0 else (next_seq(archive), archive)


class ArchivedReading:
    """The messages of the archive, then those of the log; what stands in both is given once."""

    def __init__(self, archive: str, log: str, start: int = 0, *, outline: bool = False, brief: bool = False) -> None:
        self.damage: list[Damage] = []
        self._outline = outline
        self._brief = brief
        self._archive = archive
        self._log = log
        self._start = start

    def __iter__(self) -> Iterator[Message]:
        self.damage = []
        # The log is opened first, and only then we ask for the archive: a compaction that runs meanwhile then
        # shows a message in both files, never in none.
        try:
            descriptor = fsio.open_file(self._log, os.O_RDONLY)
        except FileNotFoundError:
            descriptor = -1
        try:
            archived = exists(self._archive)
            repeated = repeats_from(self._archive, descriptor) if archived and descriptor >= 0 else -1
            older = JournalReading(self._archive, outline=self._outline, brief=self._brief)
            for message in older if archived else ():
                if repeated < 0 or message.seq < repeated:
                    yield message
            self.damage += older.damage
            if descriptor < 0:
                return
            if repeated >= 0:
                newer = JournalReading(self._log, first_seq=repeated, outline=self._outline, brief=self._brief)
            elif archived:
                first = older.last_seq + 1
                newer = JournalReading(
                    self._log, first_seq=first, archive=self._archive, outline=self._outline, brief=self._brief
                )
            else:
                newer = JournalReading(
                    self._log,
                    seek=lambda opened: offset_of(opened, self._start),
                    outline=self._outline,
                    brief=self._brief,
                )
            opened, descriptor = descriptor, -1  # the reading closes it
            for batch in newer.batches_of(opened):
                yield from batch
            self.damage += newer.damage
        finally:
            if descriptor >= 0:
                os.close(descriptor)


def compact(archive: str, log: str, before: int, *, numbered: bool) -> int:
    """Move the messages below `before`, with the records about them; how many messages moved.

    `numbered` layouts have an `idx` in each message, counted from 0 in each file. The caller holds the
    lock and knows that the log is not damaged.
    """
    if not any(message is not None and message.seq < before for message, _, _ in _records(log, archive)):
        return 0
    _undo_interrupted(archive, log)
    if _unnamed(log):
        # Numbers that come from the place would change when the archive grows: write them down first.
        fsio.replace_file(log, _what_is_left(log, archive, set(), numbered))
    there = JournalReading(archive)
    count = sum(len(batch) for batch in there.batches())
    moved: set[str] = set()
    known: set[bytes] | None = None
    target = OpenLog(archive, lambda _: b"")
    try:
        batch: list[bytes] = []
        size = 0
        for message, record, line in _records(log, archive):
            if message is None:
                if _about(record) not in moved or (known and line in known):
                    continue
            elif message.seq >= before:
                continue
            else:
                moved.add(message.id)
                if message.seq <= there.last_seq:  # an interrupted compaction brought it over already
                    if known is None:
                        known = {line for message, _, line in _records(archive, "") if message is None}
                    continue
                if numbered:
                    line = _indexed(record, line, count)
                count += 1
            batch.append(line)
            size += len(line)
            if size > BATCH:
                target.append_raw(batch)
                batch, size = [], 0
        if batch:
            target.append_raw(batch)
    finally:
        target.close()
    fsio.replace_file(log, _what_is_left(log, archive, moved, numbered))
    return len(moved)


def _undo_interrupted(archive: str, log: str) -> None:
    """Cut the archive back to where it begins to repeat the log: all that follows is there too."""
    first, _ = before_log(archive, log)
    file = fsio.AppendFile(archive)
    try:
        offset = 0
        for _, piece, length in blocks(file.descriptor, 0, file.end):
            for raw in split_lines(piece or b""):
                message = decode_line(raw) if raw.strip() else None
                if message is not None and message.role and message.seq >= first:
                    file.cut(offset)
                    return
                offset += len(raw)
            offset += length if piece is None else 0
    finally:
        file.close()


def _unnamed(log: str) -> bool:
    """Whether some message of the log does not say its number and id itself."""
    descriptor = fsio.open_file(log, os.O_RDONLY)
    try:
        return any(
            plain_messages(piece or b"") is None for _, piece, _ in blocks(descriptor, 0, os.fstat(descriptor).st_size)
        )
    finally:
        os.close(descriptor)


def _about(record: dict[str, Any]) -> str:
    """The id of the message that a record belongs to."""
    about = record.get("message_id")
    return about if isinstance(about, str) else ""


def _indexed(record: dict[str, Any], line: bytes, index: int) -> bytes:
    """The line of a message with its place in the file; the same bytes where it is that already."""
    if record.get("idx") == index:
        return line
    return encode({"idx": index, **{key: value for key, value in record.items() if key != "idx"}}) + b"\n"


def _what_is_left(log: str, archive: str, moved: set[str], numbered: bool) -> Iterator[bytes]:
    index = 0
    for message, record, line in _records(log, archive):
        if (_about(record) if message is None else message.id) in moved:
            continue
        if message is not None and numbered:
            line = _indexed(record, line, index)
            index += 1
        yield line


def _records(log: str, archive: str) -> Iterator[tuple[StoredMessage | None, dict[str, Any], bytes]]:
    """Every record of the log and its line as it stands, but with number and id made explicit."""
    last = first_seq(archive, log) - 1
    descriptor = fsio.open_file(log, os.O_RDONLY)
    try:
        for _, piece, _ in blocks(descriptor, 0, os.fstat(descriptor).st_size):
            for raw in split_lines(piece or b""):
                if not raw.strip():
                    continue
                try:
                    record = decode_value(raw)
                    message = coerce(record)
                except BadLine as error:  # a number of 5,000 digits, say: to be read over, not to be rewritten
                    raise DamagedData(f"a line of {log} cannot be moved: {error}", kept="everything") from error
                line = raw.strip() + b"\n"
                if not message.role:
                    yield None, record, line
                    continue
                if message.seq < 0:
                    message.seq = record["seq"] = last + 1
                    line = b""
                if not message.id:
                    message.id = record["id"] = derived_id(message.seq, raw)
                    line = b""
                last = message.seq
                yield message, record, line or encode(record) + b"\n"
    finally:
        os.close(descriptor)
