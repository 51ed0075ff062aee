"""Changing what stored lines say, in the one case that asks for it: a secret must not reach git.

The whole file is replaced atomically; lines that do not change keep their bytes, and ids and numbers stay.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

from cortext.io import files as fsio
from cortext.io.jsonl import blocks, split_lines
from cortext.store.files.lines import BadLine, decode_value, encode
from cortext.store.files.metadata import load_fields, save_fields

_NAMES = ("conversation_id", "session_id", "id")
Transform = Callable[[dict[str, Any]], dict[str, Any]]


def rewrite(path: str, transform: Transform) -> int:
    """Put every record through `transform`; how many changed. Nothing is written where none did."""
    if not os.path.lexists(path):
        return 0
    changed = sum(1 for _, now in _lines(path, transform) if now is not None)
    if changed:
        fsio.replace_file(path, (raw if now is None else now for raw, now in _lines(path, transform)))
    return changed


def _lines(path: str, transform: Transform) -> Iterator[tuple[bytes, bytes | None]]:
    """Each line as it stands, and as it is to be where that is different."""
    descriptor = fsio.open_file(path, os.O_RDONLY)
    try:
        for _, piece, _ in blocks(descriptor, 0, os.fstat(descriptor).st_size):
            for raw in split_lines(piece or b""):
                try:
                    record = decode_value(raw)
                except BadLine:
                    yield raw, None
                    continue
                now = transform(record) if isinstance(record, dict) else record
                end = b"\n" if raw.endswith(b"\n") else b""
                yield raw, None if now == record else encode(now) + end
    finally:
        os.close(descriptor)


def rewrite_fields(path: str, transform: Transform) -> int:
    """The same for a metadata file; its damage, and what a session is called by (`conversation_id`), stay."""
    fields, damage = load_fields(path)
    now = {**transform(fields), **{name: fields[name] for name in _NAMES if name in fields}}
    if damage or now == fields:
        return 0
    save_fields(path, now)
    return 1
