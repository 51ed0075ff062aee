"""Change stored messages, for the two cases that need it: a secret must not reach git, and git changed line ends.

The file is replaced atomically. Lines that do not change keep their bytes, and ids and sequence numbers stay.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

from cortext.io import durable
from cortext.io.jsonl import blocks, split_lines
from cortext.store.files.lines import BadLine, decode_value, encode
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
