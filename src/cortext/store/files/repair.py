"""Change a stored log: repair damage, mask what must not reach git, restore line ends that git changed.

The file is replaced atomically. Complete records stay, byte for byte where possible; ids and sequence numbers stay, and
what is unreadable is quarantined.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from cortext.io import durable
from cortext.io.jsonl import blocks, split_lines
from cortext.store.base import DISORDER, Damage
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
from cortext.store.files.log import keep_in_quarantine
from cortext.store.files.merge import CONFLICT_BEGIN, merge_lines, read_lines, sides_of
from cortext.store.files.metadata import load_fields, save_fields

_ID_FIELDS = ("conversation_id", "session_id", "id")
Transform = Callable[[dict[str, Any]], dict[str, Any]]


def rewrite(path: str, transform: Transform) -> int:
    """Apply `transform` to every record and return how many changed. If none did, nothing is written."""
    if not os.path.lexists(path):
        return 0
    changed = sum(1 for _, new in _lines(path, transform) if new is not None)
    if changed:
        durable.replace_file(path, (raw if new is None else new for raw, new in _lines(path, transform)))
    return changed


def has_crlf(path: str) -> bool:
    """Whether a line of a file ends as git writes it in a clone with `core.autocrlf`."""
    return any(new != raw for raw, new in _line_feeds(path))


def with_line_feeds(path: str) -> Iterator[bytes]:
    """Yield the lines of a file, none of them with a carriage return at its end."""
    yield from (new for _, new in _line_feeds(path))


def _line_feeds(path: str) -> Iterator[tuple[bytes, bytes]]:
    descriptor = durable.open_file(path, os.O_RDONLY)
    try:
        for start, block, length in blocks(descriptor, 0, os.fstat(descriptor).st_size):
            lines = durable.read_blocks(descriptor, start, start + length) if block is None else split_lines(block)
            yield from ((raw, raw[:-2] + b"\n" if raw.endswith(b"\r\n") else raw) for raw in lines)
    finally:
        os.close(descriptor)


def _lines(path: str, transform: Transform) -> Iterator[tuple[bytes, bytes | None]]:
    """Return each line, and the new line if it differs."""
    descriptor = durable.open_file(path, os.O_RDONLY)
    try:
        for _, block, _ in blocks(descriptor, 0, os.fstat(descriptor).st_size):
            for raw in split_lines(block or b""):
                try:
                    record = decode_value(raw)
                except BadLine:
                    yield raw, None
                    continue
                new = transform(record) if isinstance(record, dict) else record
                end = b"\n" if raw.endswith(b"\n") else b""
                yield raw, None if new == record else encode(new) + end
    finally:
        os.close(descriptor)


def rewrite_fields(path: str, transform: Transform) -> int:
    """Apply `transform` to a metadata file and return how many changed. Ids stay; a damaged file is not written."""
    fields, damage = load_fields(path)
    new = {**transform(fields), **{name: fields[name] for name in _ID_FIELDS if name in fields}}
    if damage or new == fields:
        return 0
    save_fields(path, new)
    return 1


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
        found.quarantined = keep_in_quarantine(path, descriptor, ranges)
        if _merge_conflict(path, found.damage):
            repair_file(path, first_seq, archive)  # there may be other damage
        else:
            durable.replace_file(path, _repaired_lines(descriptor, found.damage, first_seq - 1, ids))
    finally:
        os.close(descriptor)
    return found


def _merge_conflict(path: str, damage: list[Damage]) -> bool:
    """Merge the two sides of a git conflict in a log, as the merge driver does; return whether there was one."""
    with open(path, "rb", opener=durable.plain_file) as file:
        if not any(os.pread(file.fileno(), 8, item.offset) == CONFLICT_BEGIN for item in damage):
            return False
        found = sides_of(file.read())
    # Both sides of a conflict append at the end of a log. Markers elsewhere are not a conflict: only they are removed.
    if found is None or not found.at_end:
        return False
    merged = merge_lines(*(list(read_lines(side)) for side in found.all))
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
