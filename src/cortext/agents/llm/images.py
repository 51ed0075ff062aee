"""An image by its reference: the bytes, if it is a local file and really an image."""

from __future__ import annotations

import os

from cortext.io import durable
from cortext.model.message import image_type

LARGEST = 5_000_000  # bytes; the smallest limit of all providers


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
    kind = image_type(data)
    return (kind, data) if kind else None
