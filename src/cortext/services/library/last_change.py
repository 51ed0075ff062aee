"""The last change of tags, stars, notes or the archive, so that `--undo` takes back exactly that and nothing else.

One file for each of the four, in the state folder. If it cannot be written, the change is made without an `--undo`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import msgspec

from cortext.config import folders
from cortext.errors import CortextError
from cortext.io import durable

LARGEST = 64 << 20  # bytes


class Part(msgspec.Struct, frozen=True):
    """One conversation that was changed, and the tags or notes that were added or removed."""

    root: str
    id: str
    words: list[str] = []


class LastChange(msgspec.Struct, frozen=True):
    """What was changed: `on` if tags, stars, notes or the archive were set, else they were removed."""

    on: bool
    parts: list[Part]


def remember(what: str, *, on: bool, parts: Sequence[Part]) -> bool:
    """Record a change instead of the one before; return whether that was possible."""
    path = _path(what)
    try:
        durable.ensure_folder(os.path.dirname(path))
        durable.replace_file(path, [msgspec.json.encode(LastChange(on, list(parts)))])
    except (OSError, CortextError):
        return False
    return True


def recall(what: str) -> LastChange | None:
    """Return the last change of tags, stars, notes or the archive; None if there is none."""
    try:
        return msgspec.json.decode(durable.read_file(_path(what), LARGEST), type=LastChange)
    except (OSError, CortextError, msgspec.DecodeError, UnicodeDecodeError):
        return None


def _path(what: str) -> str:
    return os.path.join(folders.state(), "last-change", f"{what}.json")
