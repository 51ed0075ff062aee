"""Merging a session that two branches (or two machines) both continued: every message is kept.

Used as a git merge driver, on one file at a time: the common ancestor, ours and theirs. Messages are united by
id: ours stay as they are, what only theirs added follows with new numbers, and its first message says after
which one the ways parted (`extra.forked_from`). Metadata is merged field by field; where both changed one, the
side that was active last wins.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from cortext import fsio
from cortext.jsonl import blocks, split_lines
from cortext.store.fields import number_field
from cortext.store.lines import BadLine, coerce, decode_value, derived_id, encode, encode_pretty

_COUNTS = ("message_count", "token_count", "current_count", "archive_count")


class Line:
    """A line of a log with what a merge needs to know of it."""

    __slots__ = ("key", "raw", "record", "seq")

    def __init__(self, raw: bytes, key: str, seq: int, record: dict[str, Any] | None) -> None:
        self.raw, self.key, self.seq, self.record = raw, key, seq, record


def merge_logs(base: str, ours: str, theirs: str) -> tuple[int, str]:
    """Write the union into `ours`; how many messages came from theirs, and after which id the ways parted."""
    ancestor = {line.key for line in _lines(base)}
    mine = list(_lines(ours))
    own = {line.key for line in mine}
    there = list(_lines(theirs))
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
    fsio.replace_file(ours, [line.raw for line in result])
    return sum(1 for line in new if line.record is not None), forked_from if mine_went_on and new else ""


def _lines(path: str) -> Iterable[Line]:
    """The lines of a log: messages by their id, anything else by its very bytes, so nothing is taken for another."""
    try:
        descriptor = fsio.open_file(path, os.O_RDONLY)
    except FileNotFoundError:
        return
    last = -1
    try:
        for _, piece, _ in blocks(descriptor, 0, os.fstat(descriptor).st_size):
            for raw in split_lines(piece or b""):
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
    finally:
        os.close(descriptor)


def merge_metadata(base: str, ours: str, theirs: str) -> None:
    """Write the merged metadata into `ours`; BadLine where one of the files is not metadata."""
    old, mine, other = (_fields(path) for path in (base, ours, theirs))
    newer = other if str(other.get("last_active", "")) > str(mine.get("last_active", "")) else mine
    merged = _merge(old, mine, other, newer)
    for name in _COUNTS:  # a view of the log, set right when the session is next written
        before, ours_now, theirs_now = (number_field(fields, name) for fields in (old, mine, other))
        if name in mine and name in other:
            merged[name] = ours_now + theirs_now - before
    starts = [str(fields["created_at"]) for fields in (mine, other) if fields.get("created_at")]
    if starts:
        merged["created_at"] = min(starts)
    fsio.replace_file(ours, [encode_pretty(merged)])


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
        elif isinstance(ours, dict) and isinstance(theirs, dict):
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
    with open(path, "rb") as file:
        raw = file.read(16 << 20)
    value = decode_value(raw) if raw.strip() else {}
    if not isinstance(value, dict):
        raise BadLine("not a JSON object")
    return value
