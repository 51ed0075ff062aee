"""The cursor of a file that only grows: the offset that was reached, and a fingerprint of the file up to there."""

from __future__ import annotations

import hashlib
import os
from typing import Any

from cortext.io import durable

_HEAD, _TAIL = 4096, 512  # bytes that the fingerprint covers


def usable(cursor: dict[str, Any] | None, path: str) -> dict[str, Any] | None:
    """Return the cursor if the file still has the content that it was made for; else None."""
    if not cursor or not isinstance(cursor.get("offset"), int) or not cursor.get("seen"):
        return None
    return cursor if cursor["seen"] == fingerprint(path, cursor["offset"]) else None


def fingerprint(path: str, offset: int) -> str:
    """Return a hash of a file's first bytes and of those before an offset; empty if the file is shorter."""
    try:
        descriptor = durable.open_file(path, os.O_RDONLY)
    except FileNotFoundError:
        return ""
    try:
        if os.fstat(descriptor).st_size < offset:
            return ""
        tail = max(0, offset - _TAIL)
        data = os.pread(descriptor, min(_HEAD, offset), 0) + b"\0" + os.pread(descriptor, offset - tail, tail)
    finally:
        os.close(descriptor)
    return hashlib.blake2b(data, digest_size=12).hexdigest()
