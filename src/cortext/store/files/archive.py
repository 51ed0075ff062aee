"""Compaction: older messages move from the log into an archive beside it. It is crash-safe at every step.

Messages are appended to the archive and flushed, then the log is replaced by the rest. Between the two steps a message
is in both files with the same sequence number, and readers return the one in the log, because the archive may be
incomplete after a crash. A crash at any point loses nothing: the next compaction truncates the archive to where the log
begins, and starts over.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from cortext.errors import DamagedData
from cortext.io import durable
from cortext.io.jsonl import blocks, split_lines
from cortext.model.message import Message
from cortext.store.base import Damage
from cortext.store.files.journal import JournalReading, offset_of, plain_messages, tail
from cortext.store.files.lines import BadLine, StoredMessage, coerce, decode_line, decode_value, derived_id, encode
from cortext.store.files.log import OpenLog

BATCH = 1 << 20


def exists(path: str) -> bool:
    """Whether the archive exists."""
    return bool(path) and os.path.lexists(path)


def first_seq(archive: str, log: str) -> int:
    """Return the sequence number of the log's first message, which the line itself need not contain."""
    first = _first_message(log)
    if first is not None and first.seq >= 0:
        return first.seq
    return next_seq(archive)


def next_seq(archive: str) -> int:
    """Return the sequence number after the last message of the archive; 0 if there is no archive."""
    last = tail(archive, 1) if exists(archive) else []
    return last[0].seq + 1 if last else 0


def _first_message(log: str) -> StoredMessage | None:
    try:
        descriptor = durable.open_file(log, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        return _first_message_in(descriptor)
    finally:
        os.close(descriptor)


def _first_message_in(descriptor: int) -> StoredMessage | None:
    for _, block, _ in blocks(descriptor, 0, min(BATCH, os.fstat(descriptor).st_size)):
        for raw in split_lines(block or b""):
            try:
                message = decode_line(raw)
            except BadLine:
                continue
            if message.role:
                return message
    return None


def first_repeated_seq(archive: str, descriptor: int) -> int:
    """Return the sequence number from which on the archive repeats this open log after an interrupted compaction.

    -1 if it does not: messages that another program renumbered are not repeated, and must not be left out.
    """
    first = _first_message_in(descriptor)
    last = tail(archive, 1)
    if first is None or first.seq < 0 or not last or last[0].seq < first.seq:
        return -1
    log_ids = {message.id for batch in JournalReading("").batches_of(os.dup(descriptor)) for message in batch}
    archived_ids = {message.id for message in JournalReading(archive) if message.seq >= first.seq}
    return first.seq if archived_ids <= log_ids else -1


def log_start(archive: str, log: str) -> tuple[int, str]:
    """Return how to read the log: its first sequence number, and the archive if that may contain the same messages."""
    try:
        descriptor = durable.open_file(log, os.O_RDONLY)
    except FileNotFoundError:
        return next_seq(archive), archive
    try:
        repeated = first_repeated_seq(archive, descriptor)
    finally:
        os.close(descriptor)
    return (repeated, "") if repeated >= 0 else (next_seq(archive), archive)


class ArchivedReading:
    """The messages of the archive, then those of the log; a message that is in both is returned once."""

    def __init__(self, archive: str, log: str, start: int = 0, *, outline: bool = False, brief: bool = False) -> None:
        self.damage: list[Damage] = []
        self._outline = outline
        self._brief = brief
        self._archive = archive
        self._log = log
        self._start = start

    def __iter__(self) -> Iterator[Message]:
        self.damage = []
        # The log is opened before the archive: a message that a compaction moves in between is then seen in both
        # files rather than in neither.
        try:
            descriptor = durable.open_file(self._log, os.O_RDONLY)
        except FileNotFoundError:
            descriptor = -1
        try:
            archived = exists(self._archive)
            repeated = first_repeated_seq(self._archive, descriptor) if archived and descriptor >= 0 else -1
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
    """Move the messages below `before`, and the records about them; return how many messages were moved.

    `numbered` layouts have an `idx` in each message, counted from 0 in each file. The caller holds the lock and has
    checked that the log is not damaged.
    """
    if not any(message is not None and message.seq < before for message, _, _ in _records(log, archive)):
        return 0
    _undo_interrupted(archive, log)
    if _has_implicit_numbers(log):
        # Numbers that depend on the position in the log would change when the archive grows: store them first.
        durable.replace_file(log, _remaining_lines(log, archive, set(), numbered))
    archived = JournalReading(archive)
    count = sum(len(batch) for batch in archived.batches())
    moved: set[str] = set()
    archived_records: set[bytes] | None = None
    target = OpenLog(archive, lambda _: b"")
    try:
        batch: list[bytes] = []
        size = 0
        for message, record, line in _records(log, archive):
            if message is None:
                if _message_id_of(record) not in moved or (archived_records and line in archived_records):
                    continue
            elif message.seq >= before:
                continue
            else:
                moved.add(message.id)
                if message.seq <= archived.last_seq:  # an interrupted compaction has already moved it
                    if archived_records is None:
                        archived_records = {line for message, _, line in _records(archive, "") if message is None}
                    continue
                if numbered:
                    line = _with_index(record, line, count)
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
    durable.replace_file(log, _remaining_lines(log, archive, moved, numbered))
    return len(moved)


def _undo_interrupted(archive: str, log: str) -> None:
    """Truncate the archive to where it begins to repeat the log; what follows is in the log as well."""
    first, _ = log_start(archive, log)
    file = durable.AppendFile(archive)
    try:
        offset = 0
        for _, block, length in blocks(file.descriptor, 0, file.end):
            for raw in split_lines(block or b""):
                message = decode_line(raw) if raw.strip() else None
                if message is not None and message.role and message.seq >= first:
                    file.cut(offset)
                    return
                offset += len(raw)
            offset += length if block is None else 0
    finally:
        file.close()


def _has_implicit_numbers(log: str) -> bool:
    """Whether the line of some message lacks its sequence number or its id."""
    descriptor = durable.open_file(log, os.O_RDONLY)
    try:
        return any(
            plain_messages(block or b"") is None for _, block, _ in blocks(descriptor, 0, os.fstat(descriptor).st_size)
        )
    finally:
        os.close(descriptor)


def _message_id_of(record: dict[str, Any]) -> str:
    """Return the id of the message that a record belongs to."""
    message_id = record.get("message_id")
    return message_id if isinstance(message_id, str) else ""


def _with_index(record: dict[str, Any], line: bytes, index: int) -> bytes:
    """Return a message's line with this `idx`; the same bytes if it has that already."""
    if record.get("idx") == index:
        return line
    return encode({"idx": index, **{key: value for key, value in record.items() if key != "idx"}}) + b"\n"


def _remaining_lines(log: str, archive: str, moved: set[str], numbered: bool) -> Iterator[bytes]:
    index = 0
    for message, record, line in _records(log, archive):
        if (_message_id_of(record) if message is None else message.id) in moved:
            continue
        if message is not None and numbered:
            line = _with_index(record, line, index)
            index += 1
        yield line


def _records(log: str, archive: str) -> Iterator[tuple[StoredMessage | None, dict[str, Any], bytes]]:
    """Return every record of the log with its line; a missing sequence number or id is added to the line."""
    last = first_seq(archive, log) - 1
    descriptor = durable.open_file(log, os.O_RDONLY)
    try:
        for _, block, _ in blocks(descriptor, 0, os.fstat(descriptor).st_size):
            for raw in split_lines(block or b""):
                if not raw.strip():
                    continue
                try:
                    record = decode_value(raw)
                    message = coerce(record)
                except BadLine as error:  # a number of 5,000 digits, say: readers skip it, but it cannot be rewritten
                    raise DamagedData(
                        f"a line of {log} cannot be moved to the archive: {error}", kept="everything, unchanged"
                    ) from error
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
