"""Merge a session that two branches (or two machines) both continued: every message is kept.

Used as a git merge driver, on one file at a time: the common ancestor, ours and theirs. Messages are merged by id: ours
stay as they are, and those that only theirs has follow with new sequence numbers; the first of them names the message
after which the sides diverged (`extra.forked_from`). Metadata is merged field by field; if both sides changed a field,
the side that was active last wins.

Also what git may put in the place of a session's file: both sides of a conflict between markers, which is split into
the two sides and, where git shows it, their common ancestor; or a pointer of Git LFS.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from cortext.io import durable
from cortext.io.jsonl import blocks, split_lines
from cortext.model.order import ORDER
from cortext.model.order import merged as merged_events
from cortext.store.files.fields import number_field
from cortext.store.files.lines import BadLine, coerce, decode_value, derived_id, encode, encode_pretty

_POINTER = b"version https://git-lfs.github.com/spec/"
_LARGEST_POINTER = 1024
CONFLICT_BEGIN = b"<<<<<<< "
_OURS, _BASE, _THEIRS, _END = CONFLICT_BEGIN, b"||||||| ", b"=======", b">>>>>>> "

_COUNTS = ("message_count", "aside_count", "token_count", "current_count", "archive_count")
_INDIVISIBLE = ("continuation",)  # one side's tool with the other side's session id would be wrong


def is_pointer(path: str) -> bool:
    """Whether a file is a pointer of Git LFS, whose content was not fetched."""
    try:
        descriptor = durable.open_file(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        if os.fstat(descriptor).st_size > _LARGEST_POINTER:
            return False
        return os.pread(descriptor, len(_POINTER), 0) == _POINTER
    finally:
        os.close(descriptor)


class Sides:
    """The lines of each side; `base` holds what is known of the common ancestor, which git shows only on request."""

    def __init__(self) -> None:
        self.base: list[bytes] = []
        self.ours: list[bytes] = []
        self.theirs: list[bytes] = []
        self.all = (self.base, self.ours, self.theirs)
        self.at_end = False  # whether the file ends with the last marker


def sides_of(raw: bytes) -> Sides | None:
    """Return the sides of a file; None if it has no conflict markers, or not as git writes them."""
    if _END not in raw:
        return None
    found = Sides()
    targets: tuple[list[bytes], ...] = found.all
    state, conflicts = b"", 0
    for line in raw.splitlines(keepends=True):
        found.at_end = line.startswith(_END)
        marker = next((marker for marker in (_OURS, _BASE, _THEIRS, _END) if line.startswith(marker)), b"")
        if marker == _OURS and state == b"":
            state, targets = _OURS, (found.ours,)
        elif marker == _BASE and state == _OURS:
            state, targets = _BASE, (found.base,)
        elif marker == _THEIRS and state in (_OURS, _BASE) and line.rstrip(b"\r\n") == _THEIRS:
            state, targets = _THEIRS, (found.theirs,)
        elif marker == _END and state == _THEIRS:
            state, targets = b"", found.all
            conflicts += 1
        elif marker and marker != _THEIRS:
            return None
        else:
            for side in targets:
                side.append(line)
    return found if conflicts and not state else None


class MergeResult(NamedTuple):
    """A merged log: its lines, how many messages theirs added, and the id after which the sides diverged."""

    lines: list[bytes]
    added: int
    forked_from: str


class LogLine:
    """A line of a log with what a merge needs; `record` is None for anything but a message."""

    __slots__ = ("key", "raw", "record", "seq")

    def __init__(self, raw: bytes, key: str, seq: int, record: dict[str, Any] | None) -> None:
        self.raw, self.key, self.seq, self.record = raw, key, seq, record


def merge_logs(base: str, ours: str, theirs: str) -> tuple[int, str]:
    """Write the merged log to `ours`; return how many messages theirs added, and the id after which they diverged."""
    merged = merge_lines(*(list(lines_of(path)) for path in (base, ours, theirs)))
    durable.replace_file(ours, merged.lines)
    return merged.added, merged.forked_from


def merge_lines(base: Sequence[LogLine], ours: Sequence[LogLine], theirs: Sequence[LogLine]) -> MergeResult:
    """Merge two logs with a common ancestor: our lines, then those that only theirs added."""
    base_keys = {line.key for line in base}
    our_keys = {line.key for line in ours}
    their_keys = {line.key for line in theirs}
    # A line of the ancestor that one side lacks was moved to that side's archive: it is not brought back.
    result = [line for line in ours if line.key not in base_keys or line.key in their_keys]
    new = [line for line in theirs if line.key not in our_keys and line.key not in base_keys]
    forked_from = next((line.key for line in reversed(theirs) if line.record and line.key in base_keys), "")
    ours_continued = any(line.record is not None and line.key not in base_keys for line in ours)
    last = max((line.seq for line in ours), default=-1)
    fork_recorded = not ours_continued
    for line in new:
        if line.record is not None:
            changes: dict[str, Any] = {}
            if line.seq <= last:
                changes["seq"] = last + 1
            if not fork_recorded:
                extra = line.record.get("extra")
                changes["extra"] = {**(extra if isinstance(extra, dict) else {}), "forked_from": forked_from}
                fork_recorded = True
            last = max(last + 1, line.seq) if line.seq > last else last + 1
            if changes:
                line.raw = encode({**line.record, **changes}) + b"\n"
        result.append(line)
    added = sum(1 for line in new if line.record is not None)
    return MergeResult([line.raw for line in result], added, forked_from if ours_continued and new else "")


def join_logs(path: str, raws: Sequence[bytes]) -> int:
    """Add messages that a log once had, and that another branch may have, at its end; return how many."""
    ours, missing = list(lines_of(path)), list(read_lines(raws))
    if missing:
        base = [line for line in ours if line.record is not None and line.seq < missing[0].seq]
        durable.replace_file(path, merge_lines(base, ours, [*base, *missing]).lines)
    return len(missing)


def restore_log(path: str, written: bytes) -> None:
    """Restore a log to the contents `written`, followed by the messages that were appended since."""
    before = list(read_lines(written.splitlines(keepends=True)))
    known = {line.key for line in before}
    last = max((line.seq for line in before), default=-1)
    appended = [
        line for line in lines_of(path) if line.record is not None and line.key not in known and line.seq > last
    ]
    durable.replace_file(path, [written, *(line.raw for line in appended)])


def lines_of(path: str) -> Iterator[LogLine]:
    """Return the lines of a log; none if the file does not exist."""
    try:
        descriptor = durable.open_file(path, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        contents = (block or b"" for _, block, _ in blocks(descriptor, 0, os.fstat(descriptor).st_size))
        yield from read_lines(raw for block in contents for raw in split_lines(block))
    finally:
        os.close(descriptor)


def read_lines(raws: Iterable[bytes]) -> Iterator[LogLine]:
    """Return the lines of a log; the key of a message is its id, that of any other line is its bytes."""
    last = -1
    for raw in raws:
        if not raw.strip():
            continue
        complete_line = raw if raw.endswith(b"\n") else raw + b"\n"
        try:
            record = decode_value(raw)
            message = coerce(record)
        except BadLine:
            yield LogLine(complete_line, complete_line.hex(), -1, None)
            continue
        if not message.role:
            yield LogLine(complete_line, complete_line.hex(), -1, None)
            continue
        seq = message.seq if message.seq >= 0 else last + 1
        last = seq
        yield LogLine(complete_line, message.id or derived_id(seq, complete_line), seq, record)


def merge_metadata(base: str, ours: str, theirs: str) -> None:
    """Write the merged metadata to `ours`; BadLine if one of the files is not metadata."""
    durable.replace_file(ours, [encode_pretty(merge_fields(*(_fields(path) for path in (base, ours, theirs))))])


def merge_fields(base: dict[str, Any], ours: dict[str, Any], theirs: dict[str, Any]) -> dict[str, Any]:
    """Return the metadata of a session that both sides changed. `base` may lack fields of the ancestor."""
    newer = theirs if str(theirs.get("last_active", "")) > str(ours.get("last_active", "")) else ours
    merged = _merge(base, ours, theirs, newer)
    for name in _COUNTS:  # derived from the log, and corrected when the session is next written
        base_count, our_count, their_count = (number_field(fields, name) for fields in (base, ours, theirs))
        if name in ours and name in theirs:
            merged[name] = our_count + their_count - base_count if name in base else max(our_count, their_count)
    if any(ORDER in fields for fields in (ours, theirs)):
        merged[ORDER] = merged_events(ours.get(ORDER), theirs.get(ORDER))
    created = [str(fields["created_at"]) for fields in (ours, theirs) if fields.get("created_at")]
    if created:
        merged["created_at"] = min(created)
    return merged


def _merge(base: dict[str, Any], ours: dict[str, Any], theirs: dict[str, Any], newer: dict[str, Any]) -> dict[str, Any]:
    """Merge field by field: the side that changed a field wins; if both did, the one that was active last."""
    merged: dict[str, Any] = {}
    missing = object()
    for name in [*ours, *(key for key in theirs if key not in ours)]:
        base_value, our_value, their_value = (fields.get(name, missing) for fields in (base, ours, theirs))
        if our_value == their_value or their_value == base_value:
            value = our_value
        elif our_value == base_value:
            value = their_value
        elif isinstance(our_value, dict) and isinstance(their_value, dict) and name not in _INDIVISIBLE:
            common = base_value if isinstance(base_value, dict) else {}
            value = _merge(common, our_value, their_value, their_value if newer is theirs else our_value)
        elif isinstance(our_value, list) and isinstance(their_value, list):
            value = [*our_value, *(item for item in their_value if item not in our_value)]
        else:
            value = newer.get(name, our_value if their_value is missing else their_value)
        if value is not missing:
            merged[name] = value
    return merged


def _fields(path: str) -> dict[str, Any]:
    with open(path, "rb", opener=durable.plain_file) as file:
        raw = file.read(16 << 20)
    value = decode_value(raw) if raw.strip() else {}
    if not isinstance(value, dict):
        raise BadLine("not a JSON object")
    return value
