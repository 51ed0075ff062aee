"""The rows of the last list, so that a number typed afterwards means that row, even if the list has changed.

One file per program and terminal, in the cache: a list in another window does not renumber this one. If it cannot be
written (a read-only disk), numbers count the rows as a list would show them now.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from itertools import islice

from cortext.config import folders
from cortext.errors import CortextError
from cortext.io import durable

MOST_ROWS = 1_000
VALID_SECONDS = 24 * 3600.0  # later, another terminal may have the same session number


def remember(program: str, keys: Iterable[tuple[str, str]]) -> None:
    """Record the sessions that a list has shown, each as its store's root and its id."""
    lines = [f"{session_id} {root}\n" if "\n" not in root else "\n" for root, session_id in islice(keys, MOST_ROWS)]
    path = _path(program)
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


def recall(program: str) -> list[tuple[str, str]] | None:
    """Return what was shown last in this terminal, or None if that is not known."""
    path = _path(program)
    try:
        if time.time() - os.stat(path).st_mtime > VALID_SECONDS:
            return None
        lines = durable.read_text(path, "surrogateescape").split("\n")[:-1]
    except OSError:
        return None
    return [(root, session_id) for session_id, _, root in (line.partition(" ") for line in lines)]


def _path(program: str) -> str:
    return os.path.join(folders.cache(), "shown", f"{program}.{os.getsid(0)}")
