"""What the last command showed and changed, so that the next one can refer to it: row numbers, and `--undo`.

The rows of the last list have one file per program and terminal, in the cache: a list in another window does not
renumber this one, and a number means its row even if the list has changed. The last change of tags, stars, notes and
the archive has one file for each of the four, in the state folder: `--undo` takes back exactly that. If a file cannot
be written (a read-only disk), numbers count the rows as a list would show them now, and the change has no `--undo`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Sequence
from itertools import islice

import msgspec

from cortext.config import folders
from cortext.errors import CortextError
from cortext.io import durable

PROGRAM = "cortext"  # whose last list row numbers refer to, unless another program asks
MOST_ROWS = 1_000
VALID_SECONDS = 24 * 3600.0  # later, another terminal may have the same session number
_LARGEST_CHANGE = 64 << 20  # bytes


def remember_list(program: str, keys: Iterable[tuple[str, str]]) -> None:
    """Record the sessions that a list has shown, each as its store's root and its id."""
    lines = [f"{session_id} {root}\n" if "\n" not in root else "\n" for root, session_id in islice(keys, MOST_ROWS)]
    path = _list_path(program)
    folder = os.path.dirname(path)
    try:
        durable.ensure_folder(folder)
        durable.replace_file(path, ["".join(lines).encode("utf-8", "surrogateescape")])
        oldest = time.time() - VALID_SECONDS
        for entry in os.scandir(folder):
            if entry.stat(follow_symlinks=False).st_mtime < oldest:
                durable.remove(entry.path)
    except (OSError, CortextError):
        return  # the list itself is shown; stable numbers are a convenience


def recall_list(program: str) -> list[tuple[str, str]] | None:
    """Return what was shown last in this terminal, or None if that is not known."""
    path = _list_path(program)
    try:
        if time.time() - os.stat(path).st_mtime > VALID_SECONDS:
            return None
        lines = durable.read_text(path, "surrogateescape").split("\n")[:-1]
    except OSError:
        return None
    return [(root, session_id) for session_id, _, root in (line.partition(" ") for line in lines)]


def _list_path(program: str) -> str:
    return os.path.join(folders.cache(), "shown", f"{program}.{os.getsid(0)}")


class ChangedSession(msgspec.Struct, frozen=True):
    """One conversation that was changed, and the tags or notes that were added or removed."""

    root: str
    id: str
    words: list[str] = []


class LastChange(msgspec.Struct, frozen=True):
    """What was changed: `on` if tags, stars, notes or the archive were set, else they were removed."""

    on: bool
    parts: list[ChangedSession]


def remember_change(what: str, *, on: bool, parts: Sequence[ChangedSession]) -> bool:
    """Record a change instead of the one before; return whether that was possible."""
    path = _change_path(what)
    try:
        durable.ensure_folder(os.path.dirname(path))
        durable.replace_file(path, [msgspec.json.encode(LastChange(on, list(parts)))])
    except (OSError, CortextError):
        return False
    return True


def recall_change(what: str) -> LastChange | None:
    """Return the last change of tags, stars, notes or the archive; None if there is none."""
    try:
        return msgspec.json.decode(durable.read_file(_change_path(what), _LARGEST_CHANGE), type=LastChange)
    except (OSError, CortextError, msgspec.DecodeError, UnicodeDecodeError):
        return None


def _change_path(what: str) -> str:
    return os.path.join(folders.state(), "last-change", f"{what}.json")
