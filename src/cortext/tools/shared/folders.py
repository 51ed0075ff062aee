"""Session files in folders that are named for the project, as Claude Code and Qwen Code keep them."""

from __future__ import annotations

import os
import re
import uuid


def is_uuid(text: str) -> bool:
    """Whether a text is a session id as these tools write it: a UUID with hyphens."""
    try:
        return len(text) == 36 and str(uuid.UUID(text)) == text.lower()
    except ValueError:
        return False


def dashed(project: str) -> str:
    """Return the path with `-` for all but letters and digits; a character beyond 16 bits counts as two."""
    return re.sub(r"[^A-Za-z0-9]", "-", "".join(map(chr, utf16_units(project))))


def utf16_units(text: str) -> list[int]:
    """Return the text as JavaScript counts it."""
    raw = text.encode("utf-16-le", "surrogatepass")
    return [int.from_bytes(raw[offset : offset + 2], "little") for offset in range(0, len(raw), 2)]


def entries(folder: str) -> list[os.DirEntry[str]]:
    """Return what is in a folder; nothing if it does not exist or cannot be read."""
    try:
        with os.scandir(folder) as found:
            return list(found)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return []
