"""Bytes that could not be read, kept beside the log that they were in.

`<log>.quarantine` is JSON Lines: {"found_at", "file", "offset", "length", "reason", "sha256", "base64"},
long stretches in several lines. What is there already is not written again, so a repair that was
interrupted can simply be run once more.
"""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterable

from cortext.io import files as fsio
from cortext.io.jsonl import blocks, split_lines
from cortext.model import clock
from cortext.store.files.lines import BadLine, decode_value, encode

PIECE = 1 << 20


def path_of(log: str) -> str:
    """The quarantine file of a log."""
    return f"{log}.quarantine"


def keep(log: str, descriptor: int, stretches: Iterable[tuple[int, int, str]], name: str = "") -> int:
    """Copy stretches (offset, length, reason) of an open file into the log's quarantine, durably; bytes kept.

    The file is the log itself, or the one of that `name` beside it.
    """
    target = path_of(log)
    known = _known(target)
    total = 0
    for offset, length, reason in stretches:
        for start in range(offset, offset + length, PIECE):
            data = os.pread(descriptor, min(PIECE, offset + length - start), start)
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
            fsio.append_once(target, encode(record) + b"\n")
    return total


def _known(target: str) -> set[tuple[int, str]]:
    """Offset and hash of what the quarantine holds already. A torn line in it is simply not known."""
    known: set[tuple[int, str]] = set()
    try:
        descriptor = fsio.open_file(target, os.O_RDONLY)
    except FileNotFoundError:
        return known
    try:
        for _, piece, _ in blocks(descriptor, 0, os.fstat(descriptor).st_size):
            for line in split_lines(piece or b""):
                try:
                    record = decode_value(line)
                    known.add((record["offset"], record["sha256"]))
                except (BadLine, KeyError, TypeError):
                    continue
    finally:
        os.close(descriptor)
    return known
