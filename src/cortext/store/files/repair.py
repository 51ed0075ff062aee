"""Repair a log: complete records stay, byte for byte where possible; the rest is quarantined."""

from __future__ import annotations

import os
from collections.abc import Iterator

import msgspec

from cortext.io import durable
from cortext.io.jsonl import blocks, split_lines
from cortext.store.base import DISORDER, Damage
from cortext.store.files import quarantine
from cortext.store.files.journal import JournalReading
from cortext.store.files.lines import (
    MAX_SEQ,
    BadLine,
    StoredMessage,
    decode_line,
    decode_value,
    derived_id,
    encode,
    impossible_numbers,
    is_message,
    salvage,
)


class FileRepair(msgspec.Struct):
    """What the repair of one file found, and how much it quarantined."""

    damage: list[Damage]
    messages: int
    quarantined: int
    last_seq: int


def survey_file(path: str, first_seq: int = 0, archive: str = "") -> FileRepair:
    """Return what a repair of this file would do; nothing is changed."""
    reading = JournalReading(path, first_seq=first_seq, archive=archive)
    messages = sum(len(batch) for batch in reading.batches())
    unreadable = sum(item.length for item in reading.damage if item.kind != DISORDER)
    return FileRepair(reading.damage, messages, unreadable, reading.last_seq)


def repair_file(path: str, first_seq: int = 0, archive: str = "") -> FileRepair:
    """Repair the file: quarantine the damage, then replace the file atomically. The caller holds the lock."""
    found = survey_file(path, first_seq, archive)
    if not found.damage:
        return found
    ids = {message.id for message in JournalReading(archive)} if archive else set()
    descriptor = durable.open_file(path, os.O_RDONLY)
    try:
        ranges = [(item.offset, item.length, item.reason) for item in found.damage if item.kind != DISORDER]
        found.quarantined = quarantine.keep(path, descriptor, ranges)
        if _merge_conflict(path, found.damage):
            repair_file(path, first_seq, archive)  # there may be other damage
        else:
            durable.replace_file(path, _repaired_lines(descriptor, found.damage, first_seq - 1, ids))
    finally:
        os.close(descriptor)
    return found


def _merge_conflict(path: str, damage: list[Damage]) -> bool:
    """Merge the two sides of a git conflict in a log, as the merge driver does; return whether there was one."""
    from cortext.store.files import conflicts, merge

    with open(path, "rb", opener=durable.plain_file) as file:
        if not any(os.pread(file.fileno(), 8, item.offset) == conflicts.BEGIN for item in damage):
            return False
        found = conflicts.sides(file.read())
    # Both sides of a conflict append at the end of a log. Markers elsewhere are not a conflict: only they are removed.
    if found is None or not found.at_end:
        return False
    merged = merge.merge_lines(*(list(merge.read_lines(side)) for side in found.all))
    durable.replace_file(path, merged.lines)
    return True


def _repaired_lines(descriptor: int, damage: list[Damage], last: int, ids: set[str]) -> Iterator[bytes]:
    """Return the repaired file's lines: the old bytes, except for wrong numbers. `ids` are those of the archive."""
    damaged = {item.offset for item in damage}
    for start, block, _ in blocks(descriptor, 0, os.fstat(descriptor).st_size):
        offset = start
        for raw in split_lines(block) if block is not None else ():
            for message, line in _records(raw, offset in damaged):
                if is_message(message):
                    if message.id in ids and 0 <= message.seq <= last:
                        continue
                    if fields := impossible_numbers(line) if offset in damaged else []:
                        explicit_id = {} if message.id or message.seq >= 0 else {"id": derived_id(last + 1, line)}
                        possible = {name: item for name, item in decode_value(line).items() if name not in fields}
                        line = encode({**possible, **explicit_id}) + b"\n"
                    seq = message.seq if last < message.seq < MAX_SEQ else last + 1
                    if 0 <= message.seq < seq:
                        # A derived id depends on the sequence number, so it is stored before that changes.
                        explicit_id = {} if message.id else {"id": derived_id(seq, line)}
                        line = encode({**decode_value(line), "seq": seq, **explicit_id}) + b"\n"
                    last = seq
                    ids.add(message.id or derived_id(seq, line))
                yield line
            offset += len(raw)


def _records(raw: bytes, is_damaged: bool) -> Iterator[tuple[StoredMessage, bytes]]:
    """Return the records of one line, each with the line that it becomes."""
    if not raw.strip():
        return
    try:
        record = decode_line(raw)
        if is_message(record) and not record.role:
            return  # an object that is not a message: it has been quarantined
        yield record, raw if raw.endswith(b"\n") else raw + b"\n"
    except BadLine:
        if is_damaged:
            for record, record_bytes in salvage(raw)[0]:
                yield record, record_bytes + b"\n"
