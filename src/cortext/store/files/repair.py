"""Repairing a log: what is whole stays, byte for byte where it can; the rest goes into quarantine."""

from __future__ import annotations

import os
from collections.abc import Iterator

import msgspec

from cortext.io import files as fsio
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


class Mended(msgspec.Struct):
    """What a repair of one file found and did."""

    damage: list[Damage]
    messages: int
    quarantined: int
    last_seq: int


def survey(path: str, first_seq: int = 0, archive: str = "") -> Mended:
    """What a repair of this file would find; nothing is changed."""
    reading = JournalReading(path, first_seq=first_seq, archive=archive)
    messages = sum(len(batch) for batch in reading.batches())
    lost = sum(item.length for item in reading.damage if item.kind != DISORDER)
    return Mended(reading.damage, messages, lost, reading.last_seq)


def mend(path: str, first_seq: int = 0, archive: str = "") -> Mended:
    """Repair the file under the session's lock: quarantine first, then an atomic replacement."""
    found = survey(path, first_seq, archive)
    if not found.damage:
        return found
    ids = {message.id for message in JournalReading(archive)} if archive else set()
    descriptor = fsio.open_file(path, os.O_RDONLY)
    try:
        stretches = [(item.offset, item.length, item.reason) for item in found.damage if item.kind != DISORDER]
        found.quarantined = quarantine.keep(path, descriptor, stretches)
        if _merge_sides(path, found.damage):
            mend(path, first_seq, archive)  # what else is wrong with it
        else:
            fsio.replace_file(path, _whole_lines(descriptor, found.damage, first_seq - 1, ids))
    finally:
        os.close(descriptor)
    return found


def _merge_sides(path: str, damage: list[Damage]) -> bool:
    """Merge the two sides of a log in which git marked a conflict, as the merge driver does; whether it was one."""
    from cortext.store.files import conflicts, merge

    with open(path, "rb", opener=fsio.plain_file) as file:
        if not any(os.pread(file.fileno(), 8, item.offset) == conflicts.BEGIN for item in damage):
            return False
        found = conflicts.sides(file.read())
    # Both sides went on at the end of a log. Marks in its midst are something else: only the marks go.
    if found is None or not found.at_end:
        return False
    merged = merge.merge_lines(*(list(merge.read_lines(side)) for side in found.all))
    fsio.replace_file(path, merged.lines)
    return True


def _whole_lines(descriptor: int, damage: list[Damage], last: int, ids: set[str]) -> Iterator[bytes]:
    """The lines of the mended file: the old bytes, but for a number that is wrong. `ids` came before."""
    wrong = {item.offset for item in damage}
    for start, piece, _ in blocks(descriptor, 0, os.fstat(descriptor).st_size):
        offset = start
        for raw in split_lines(piece) if piece is not None else ():
            for message, line in _records(raw, offset in wrong):
                if is_message(message):
                    if message.id in ids and 0 <= message.seq <= last:
                        continue
                    if fields := impossible_numbers(line) if offset in wrong else []:
                        named = {} if message.id or message.seq >= 0 else {"id": derived_id(last + 1, line)}
                        sound = {name: item for name, item in decode_value(line).items() if name not in fields}
                        line = encode({**sound, **named}) + b"\n"
                    number = message.seq if last < message.seq < MAX_SEQ else last + 1
                    if 0 <= message.seq < number:
                        # A name that came from the place must not change with it.
                        named = {} if message.id else {"id": derived_id(number, line)}
                        line = encode({**decode_value(line), "seq": number, **named}) + b"\n"
                    last = number
                    ids.add(message.id or derived_id(number, line))
                yield line
            offset += len(raw)


def _records(raw: bytes, suspicious: bool) -> Iterator[tuple[StoredMessage, bytes]]:
    """The records of one line, each with the line that it becomes."""
    if not raw.strip():
        return
    try:
        record = decode_line(raw)
        if is_message(record) and not record.role:
            return  # an object, but no message: it is in quarantine
        yield record, raw if raw.endswith(b"\n") else raw + b"\n"
    except BadLine:
        if suspicious:
            for record, piece in salvage(raw)[0]:
                yield record, piece + b"\n"
