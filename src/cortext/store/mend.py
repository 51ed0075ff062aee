"""Repairing a log: what is whole stays, byte for byte where it can; the rest goes into quarantine."""

from __future__ import annotations

import os
from collections.abc import Iterator

import msgspec

from cortext import fsio
from cortext.jsonl import blocks, split_lines
from cortext.store import quarantine
from cortext.store.base import DISORDER, DOUBLED, Damage
from cortext.store.journal import JournalReading
from cortext.store.lines import BadLine, coerce, decode_value, encode, salvage


class Mended(msgspec.Struct):
    """What a repair of one file found and did."""

    damage: list[Damage]
    messages: int
    quarantined: int


def survey(path: str, first_seq: int = 0) -> Mended:
    """What a repair of this file would find; nothing is changed."""
    reading = JournalReading(path, first_seq=first_seq)
    messages = sum(len(batch) for batch in reading.batches())
    lost = sum(item.length for item in reading.damage if item.kind != DISORDER)
    return Mended(reading.damage, messages, lost)


def mend(path: str, first_seq: int = 0) -> Mended:
    """Repair the file under the session's lock: quarantine first, then an atomic replacement."""
    found = survey(path, first_seq)
    if not found.damage:
        return found
    descriptor = fsio.open_file(path, os.O_RDONLY)
    try:
        stretches = [(item.offset, item.length, item.reason) for item in found.damage if item.kind != DISORDER]
        found.quarantined = quarantine.keep(path, descriptor, stretches)
        fsio.replace_file(path, _whole_lines(descriptor, found.damage, first_seq))
    finally:
        os.close(descriptor)
    return found


def _whole_lines(descriptor: int, damage: list[Damage], first_seq: int) -> Iterator[bytes]:
    """The lines of the mended file. Up to the first number that is wrong they are the old bytes."""
    wrong = {item.offset: item for item in damage}
    last = first_seq - 1
    ids: set[str] = set()
    renumber = any(item.kind in (DISORDER, DOUBLED) for item in damage)
    for start, piece, _ in blocks(descriptor, 0, os.fstat(descriptor).st_size):
        offset = start
        for raw in split_lines(piece) if piece is not None else ():
            for record, line in _records(raw, offset in wrong):
                if record is None or not renumber:
                    yield line
                    continue
                message = coerce(record)
                if message.role:
                    if message.id and message.id in ids and 0 <= message.seq <= last:
                        continue
                    ids.add(message.id)
                    last = message.seq if message.seq > last else last + 1
                    if message.seq != last:
                        line = encode({**record, "seq": last}) + b"\n"
                yield line
            offset += len(raw)


def _records(raw: bytes, suspicious: bool) -> Iterator[tuple[dict[str, object] | None, bytes]]:
    """The records of one line, each with the line that it becomes."""
    if not raw.strip():
        return
    try:
        value = decode_value(raw)
        coerce(value)
        yield value, raw if raw.endswith(b"\n") else raw + b"\n"
    except BadLine:
        if suspicious:
            for record in salvage(raw)[0]:
                yield record, encode(record) + b"\n"
