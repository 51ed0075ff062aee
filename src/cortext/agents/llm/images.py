"""An image by its reference: the bytes, if it is a local file and really an image."""

from __future__ import annotations

import os

from cortext.io import durable

LARGEST = 5_000_000  # bytes; the smallest limit of all providers

_BEGINNINGS = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
)


def read(ref: str) -> tuple[str, bytes] | None:
    """Return the media type and bytes of an image file, or None for anything else.

    The reference may come from a stranger's transcript: a file that does not begin like an image is not sent.
    """
    if not os.path.isabs(ref) or "\0" in ref:
        return None
    try:
        data = durable.read_file(ref, LARGEST)
    except OSError:
        return None
    kind = kind_of(data)
    return (kind, data) if kind else None


def kind_of(data: bytes) -> str:
    """Return the media type of an image by its first bytes; empty for anything else."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "image/webp"
    return next((kind for beginning, kind in _BEGINNINGS if data.startswith(beginning)), "")
