"""Where the next reading of a file that only grows may start, and how it is noticed that the file was rewritten."""

from __future__ import annotations

import hashlib
import os
from typing import Any

from cortext.io import files as fsio

_HEAD, _TAIL = 4096, 512  # bytes at the beginning and before the offset that are compared


def position(path: str, offset: int) -> dict[str, Any]:
    """Return the part of a cursor that says how far a file was read; empty if the file is shorter."""
    descriptor = fsio.open_file(path, os.O_RDONLY)
    try:
        if os.fstat(descriptor).st_size < offset:
            return {}
        start = max(0, offset - _TAIL)
        head, tail = os.pread(descriptor, min(_HEAD, offset), 0), os.pread(descriptor, offset - start, start)
    finally:
        os.close(descriptor)
    return {"offset": offset, "head": _digest(head), "tail": _digest(tail)}


def start_of(cursor: dict[str, Any] | None, path: str) -> int:
    """Return the offset to read from: 0 if there is no cursor, or if the file is not the one that was read before."""
    offset = cursor.get("offset") if cursor else None
    if cursor is None or not isinstance(offset, int) or isinstance(offset, bool) or offset <= 0:
        return 0
    reached = position(path, offset)
    return offset if reached and reached == {name: cursor.get(name) for name in reached} else 0


def _digest(block: bytes) -> str:
    return hashlib.blake2b(block, digest_size=8).hexdigest()
