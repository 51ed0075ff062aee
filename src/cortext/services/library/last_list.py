"""What the last list showed, row by row: a number that a user types afterwards means that row, whatever came since.

One file for each program and terminal, in the cache: a list in another window does not renumber this one. Where
nothing can be written (a read-only disk), numbers count the rows as a list would show them now.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from itertools import islice

from cortext.config import folders
from cortext.errors import CortextError
from cortext.io import files as fsio

MOST = 1_000  # rows: nobody counts further
VALID = 24 * 3600.0  # seconds: another terminal may have got this one's number by then


def remember(program: str, keys: Iterable[tuple[str, str]]) -> None:
    """A list was shown with these sessions, each as its store's root and its id."""
    lines = [f"{session_id} {root}\n" if "\n" not in root else "\n" for root, session_id in islice(keys, MOST)]
    path = _path(program)
    folder = os.path.dirname(path)
    try:
        fsio.ensure_folder(folder)
        fsio.replace_file(path, ["".join(lines).encode("utf-8", "surrogateescape")])
        border = time.time() - VALID
        for entry in os.scandir(folder):
            if entry.stat(follow_symlinks=False).st_mtime < border:
                fsio.remove(entry.path)
    except (OSError, CortextError):
        return  # a list is there to be read; that its numbers are kept is a convenience


def recall(program: str) -> list[tuple[str, str]] | None:
    """What was shown last, in this terminal; None where that is not known."""
    path = _path(program)
    try:
        if time.time() - os.stat(path).st_mtime > VALID:
            return None
        lines = fsio.read_text(path, "surrogateescape").split("\n")[:-1]
    except OSError:
        return None
    return [(root, session_id) for session_id, _, root in (line.partition(" ") for line in lines)]


def _path(program: str) -> str:
    return os.path.join(folders.cache(), "shown", f"{program}.{os.getsid(0)}")
