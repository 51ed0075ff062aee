"""Merging a session that two branches (or two machines) both continued: every message is kept.

Used as a git merge driver, on one file at a time: the common ancestor, ours and theirs. Messages are united by
id: ours stay as they are, what only theirs added follows with new numbers, and its first message says after
which one the ways parted (`extra.forked_from`). Metadata is merged field by field; where both changed one, the
side that was active last wins.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from cortext.io import files as fsio
from cortext.io.jsonl import blocks, split_lines
from cortext.store.files.fields import number_field
from cortext.store.files.lines import BadLine, coerce, decode_value, derived_id, encode, encode_pretty

_COUNTS = ("message_count", "token_count", "current_count", "archive_count")
_WHOLE = ("continuation",)  # a tool and its own session: one side's tool with the other's session would be neither


class Merged(NamedTuple):
    """A merged log: its lines, how many messages theirs added, and after which one the ways parted."""

    lines: list[bytes]
    added: int
    forked_from: str


class Line:
    """A line of a log with what a merge needs to know of it."""

    __slots__ = ("key", "raw", "record", "seq")

    def __init__(self, raw: bytes, key: str, seq: int, record: dict[str, Any] | None) -> None:
        self.raw, self.key, self.seq, self.record = raw, key, seq, record


def merge_logs(base: str, ours: str, theirs: str) -> tuple[int, str]:
    """Write the union into `ours`; how many messages came from theirs, and after which id the ways parted."""
    merged = merge_lines(*(list(_lines(path)) for path in (base, ours, theirs)))
    fsio.replace_file(ours, merged.lines)
    return merged.added, merged.forked_from


def merge_lines(base: Sequence[Line], mine: Sequence[Line], there: Sequence[Line]) -> Merged:
    """The union of two logs that were one: ours, then what only theirs added."""
    ancestor = {line.key for line in base}
    own = {line.key for line in mine}
    kept_there = {line.key for line in there}
    # What stood in the ancestor and is gone on one side was moved to the archive there: it stays gone.
    result = [line for line in mine if line.key not in ancestor or line.key in kept_there]
    new = [line for line in there if line.key not in own and line.key not in ancestor]
    forked_from = next((line.key for line in reversed(there) if line.record and line.key in ancestor), "")
    mine_went_on = any(line.record is not None and line.key not in ancestor for line in mine)
    last = max((line.seq for line in mine), default=-1)
    marked = not mine_went_on
    for line in new:
        if line.record is not None:
            changes: dict[str, Any] = {}
            if line.seq <= last:
                changes["seq"] = last + 1
            if not marked:
                extra = line.record.get("extra")
                changes["extra"] = {**(extra if isinstance(extra, dict) else {}), "forked_from": forked_from}
                marked = True
            last = max(last + 1, line.seq) if line.seq > last else last + 1
            if changes:
                line.raw = encode({**line.record, **changes}) + b"\n"
        result.append(line)
    added = sum(1 for line in new if line.record is not None)
    return Merged([line.raw for line in result], added, forked_from if mine_went_on and new else "")


def unite(path: str, written: bytes) -> None:
    """Put a log back as it was written, and after it the messages that were appended since."""
    before = list(read_lines(written.splitlines(keepends=True)))
    known = {line.key for line in before}
    last = max((line.seq for line in before), default=-1)
    since = [line for line in _lines(path) if line.record is not None and line.key not in known and line.seq > last]
    fsio.replace_file(path, [written, *(line.raw for line in since)])


def _lines(path: str) -> Iterator[Line]:
    """The lines of a log in a file; none where there is no such file."""
    try:
        descriptor = fsio.open_file(path, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        pieces = (piece or b"" for _, piece, _ in blocks(descriptor, 0, os.fstat(descriptor).st_size))
        yield from read_lines(raw for piece in pieces for raw in split_lines(piece))
    finally:
        os.close(descriptor)


def read_lines(raws: Iterable[bytes]) -> Iterator[Line]:
    """The lines of a log: messages by their id, anything else by its very bytes, so nothing is taken for another."""
    last = -1
    for raw in raws:
        if not raw.strip():
            continue
        whole = raw if raw.endswith(b"\n") else raw + b"\n"
        try:
            record = decode_value(raw)
            message = coerce(record)
        except BadLine:
            yield Line(whole, whole.hex(), -1, None)
            continue
        if not message.role:
            yield Line(whole, whole.hex(), -1, None)
            continue
        seq = message.seq if message.seq >= 0 else last + 1
        last = seq
        yield Line(whole, message.id or derived_id(seq, whole), seq, record)


def merge_metadata(base: str, ours: str, theirs: str) -> None:
    """Write the merged metadata into `ours`; BadLine where one of the files is not metadata."""
    fsio.replace_file(ours, [encode_pretty(merge_fields(*(_fields(path) for path in (base, ours, theirs))))])


def merge_fields(old: dict[str, Any], mine: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """The metadata of a session that both sides changed. `old` may lack what the ancestor said of a field."""
    newer = other if str(other.get("last_active", "")) > str(mine.get("last_active", "")) else mine
    merged = _merge(old, mine, other, newer)
    for name in _COUNTS:  # a view of the log, set right when the session is next written
        before, ours_now, theirs_now = (number_field(fields, name) for fields in (old, mine, other))
        if name in mine and name in other:
            merged[name] = ours_now + theirs_now - before if name in old else max(ours_now, theirs_now)
    starts = [str(fields["created_at"]) for fields in (mine, other) if fields.get("created_at")]
    if starts:
        merged["created_at"] = min(starts)
    return merged


def _merge(old: dict[str, Any], mine: dict[str, Any], other: dict[str, Any], newer: dict[str, Any]) -> dict[str, Any]:
    """Field by field: who changed it wins; where both did, the one that was active last."""
    merged: dict[str, Any] = {}
    missing = object()
    for name in [*mine, *(key for key in other if key not in mine)]:
        was, ours, theirs = (fields.get(name, missing) for fields in (old, mine, other))
        if ours == theirs or theirs == was:
            value = ours
        elif ours == was:
            value = theirs
        elif isinstance(ours, dict) and isinstance(theirs, dict) and name not in _WHOLE:
            before = was if isinstance(was, dict) else {}
            value = _merge(before, ours, theirs, theirs if newer is other else ours)
        elif isinstance(ours, list) and isinstance(theirs, list):
            value = [*ours, *(item for item in theirs if item not in ours)]
        else:
            value = newer.get(name, ours if theirs is missing else theirs)
        if value is not missing:
            merged[name] = value
    return merged


def _fields(path: str) -> dict[str, Any]:
    with open(path, "rb", opener=fsio.plain_file) as file:
        raw = file.read(16 << 20)
    value = decode_value(raw) if raw.strip() else {}
    if not isinstance(value, dict):
        raise BadLine("not a JSON object")
    return value
