"""Older messages, moved out of the working log into an archive beside it; crash-safe at every step.

The order is: append to the archive and flush, then replace the log by what is left. Between the two a
message stands in both files, with the same number, and a reading shows it once. So a crash at any point
loses nothing, and the next compaction goes on from where the archive ends.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from cortext import fsio
from cortext.jsonl import blocks, split_lines
from cortext.model.message import Message
from cortext.store.base import Damage
from cortext.store.journal import JournalReading
from cortext.store.lines import BadLine, StoredMessage, coerce, decode_line, decode_value, derived_id, encode
from cortext.store.log import OpenLog
from cortext.store.seek import tail

BATCH = 1 << 20


def exists(path: str) -> bool:
    """Whether there is an archive."""
    return bool(path) and os.path.lexists(path)


def first_seq(archive: str, log: str) -> int:
    """The number that the first message of the log has if it does not say itself."""
    first = _first_message(log)
    if first is not None and first.seq >= 0:
        return first.seq
    last = tail(archive, 1) if exists(archive) else []
    return last[0].seq + 1 if last else 0


def _first_message(log: str) -> StoredMessage | None:
    try:
        descriptor = fsio.open_file(log, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        for _, piece, _ in blocks(descriptor, 0, min(BATCH, os.fstat(descriptor).st_size)):
            for raw in split_lines(piece or b""):
                try:
                    message = decode_line(raw)
                except BadLine:
                    continue
                if message.role:
                    return message
    finally:
        os.close(descriptor)
    return None


class ArchivedReading:
    """The messages of the archive, then those of the log; what stands in both is given once."""

    def __init__(self, archive: str, log: str) -> None:
        self.damage: list[Damage] = []
        self._archive = archive
        self._log = log

    def __iter__(self) -> Iterator[Message]:
        # The log is opened first: a compaction that runs between the two opens then shows a message in
        # both files, never in none.
        try:
            descriptor = fsio.open_file(self._log, os.O_RDONLY)
        except FileNotFoundError:
            descriptor = -1
        try:
            older = JournalReading(self._archive)
            yield from older
            self.damage += older.damage
            if descriptor < 0:
                return
            first = _first_message(self._log)
            start = 0 if first is not None and first.seq >= 0 else older.last_seq + 1
            newer = JournalReading(self._log, first_seq=start)
            opened, descriptor = descriptor, -1  # the reading closes it
            for batch in newer.batches_of(opened):
                for message in batch:
                    if message.seq > older.last_seq:
                        yield message
            self.damage += newer.damage
        finally:
            if descriptor >= 0:
                os.close(descriptor)


def compact(archive: str, log: str, before: int, *, numbered: bool) -> int:
    """Move the messages below `before`, with the records about them; how many messages moved.

    `numbered` layouts have an `idx` in each message, counted from 0 in each file. The caller holds the
    lock and knows that the log is not damaged.
    """
    there = JournalReading(archive)
    count = sum(len(batch) for batch in there.batches())
    moved: set[str] = set()
    target = OpenLog(archive, lambda _: b"")
    try:
        batch: list[bytes] = []
        size = 0
        for message, record in _records(log, archive):
            if message is None:
                if record.get("message_id") not in moved:
                    continue
            elif message.seq >= before:
                break
            else:
                moved.add(message.id)
                if message.seq <= there.last_seq:
                    continue  # an interrupted compaction brought it over already
                if numbered:
                    record = {"idx": count, **{key: value for key, value in record.items() if key != "idx"}}
                count += 1
            line = encode(record) + b"\n"
            batch.append(line)
            size += len(line)
            if size > BATCH:
                target.append_raw(batch)
                batch, size = [], 0
        if batch:
            target.append_raw(batch)
    finally:
        target.close()
    if moved:
        fsio.replace_file(log, _what_is_left(log, archive, moved, numbered))
    return len(moved)


def _what_is_left(log: str, archive: str, moved: set[str], numbered: bool) -> Iterator[bytes]:
    index = 0
    for message, record in _records(log, archive):
        if message is None:
            if record.get("message_id") in moved:
                continue
        elif message.id in moved:
            continue
        elif numbered:
            record = {"idx": index, **{key: value for key, value in record.items() if key != "idx"}}
            index += 1
        yield encode(record) + b"\n"


def _records(log: str, archive: str) -> Iterator[tuple[StoredMessage | None, dict[str, Any]]]:
    """Every record of the log as it stands, with its number and id made explicit; unknown keys kept."""
    last = first_seq(archive, log) - 1
    descriptor = fsio.open_file(log, os.O_RDONLY)
    try:
        for _, piece, _ in blocks(descriptor, 0, os.fstat(descriptor).st_size):
            for raw in split_lines(piece or b""):
                if not raw.strip():
                    continue
                record = decode_value(raw)
                message = coerce(record)
                if not message.role:
                    yield None, record
                    continue
                if message.seq < 0:
                    message.seq = record["seq"] = last + 1
                if not message.id:
                    message.id = record["id"] = derived_id(message.seq, raw)
                last = message.seq
                yield message, record
    finally:
        os.close(descriptor)
