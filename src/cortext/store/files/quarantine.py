"""Unreadable bytes, kept beside the log that contained them.

`<log>.quarantine` is JSON Lines: {"found_at", "file", "offset", "length", "reason", "sha256", "base64"}. A long range
takes several lines. Nothing is written twice, so an interrupted repair can simply be run again.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterable

from cortext.io import durable
from cortext.io.jsonl import blocks, split_lines
from cortext.model import clock
from cortext.store.files.lines import BadLine, decode_value, encode

CHUNK = 1 << 20


def path_of(log: str) -> str:
    """Return the path of a log's quarantine file."""
    return f"{log}.quarantine"


def keep(log: str, descriptor: int, ranges: Iterable[tuple[int, int, str]], name: str = "") -> int:
    """Copy ranges (offset, length, reason) of an open file into the log's quarantine; return the number of bytes.

    The open file is the log itself, or the file `name` beside it. The copy is durable when this returns.
    """
    target = path_of(log)
    known = _known(target)
    total = 0
    for offset, length, reason in ranges:
        for start in range(offset, offset + length, CHUNK):
            data = os.pread(descriptor, min(CHUNK, offset + length - start), start)
            digest = hashlib.sha256(data).hexdigest()
            total += len(data)
            if (start, digest) in known:
                continue
            record = {
                "found_at": clock.now(),
                "file": name or os.path.basename(log),
                "offset": start,
                "length": len(data),
                "reason": reason,
                "sha256": digest,
                "base64": base64.b64encode(data).decode("ascii"),
            }
            durable.append_once(target, encode(record) + b"\n")
    return total


def _known(target: str) -> set[tuple[int, str]]:
    """Return the offset and hash of everything in the quarantine. A torn line there is ignored."""
    known: set[tuple[int, str]] = set()
    try:
        descriptor = durable.open_file(target, os.O_RDONLY)
    except FileNotFoundError:
        return known
    try:
        for _, block, _ in blocks(descriptor, 0, os.fstat(descriptor).st_size):
            for line in split_lines(block or b""):
                try:
                    record = decode_value(line)
                    known.add((record["offset"], record["sha256"]))
                except (BadLine, KeyError, TypeError):
                    continue
    finally:
        os.close(descriptor)
    return known
