"""One folder with a search index in it: keywords, word list, vectors, and how far they are."""

from __future__ import annotations

import errno
import json
import os
import re
import sqlite3
from typing import TYPE_CHECKING, NamedTuple

from cortext.errors import SessionBusy, WriteFailed
from cortext.index.database import locked, unwritable
from cortext.index.search.keywords import Keywords
from cortext.index.search.state import State
from cortext.index.search.wordlist import WordList
from cortext.io import files as fsio

if TYPE_CHECKING:
    from cortext.index.search.meaning import Meaning


class Status(NamedTuple):
    """What the index holds; `bytes` by what they are for."""

    folder: str
    sessions: int
    messages: int
    bytes: dict[str, int]
    model: str
    embedded: int
    behind: bool


ROOM = 16 << 20  # bytes that are free on a disk that is not full
_REFUSED = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM)
BROKEN = (ValueError, OSError, sqlite3.DatabaseError)  # what a damaged index is met with


class Generation:
    """One folder with an index in it."""

    def __init__(self, folder: str) -> None:
        fsio.ensure_folder(folder)
        self.folder = folder
        self.state = State(folder)
        self.words = WordList(folder)
        self.keywords = Keywords(os.path.join(folder, "keywords"))
        self._meanings: dict[str, Meaning] = {}

    def meaning(self, model: str) -> Meaning:
        """The vectors of a model."""
        from cortext.index.search.meaning import Meaning

        if model not in self._meanings:
            self._meanings[model] = Meaning(self.folder, self.state, model)
        return self._meanings[model]

    def close(self) -> None:
        self.state.close()


def skipped(state: State) -> list[str]:
    """Stores whose sessions were seen in the list and not taken in, because they were not known here then."""
    found: list[str] = json.loads(state.fact("skipped", "[]"))
    return found


def check_space(error: Exception, folder: str) -> None:
    """A full disk, one that is read-only, or a lock is no damage: the index is kept as it is, and the user told."""
    if isinstance(error, sqlite3.DatabaseError):
        if locked(error):
            raise SessionBusy(
                "another process is holding the database of the search index",
                kept="every session, and the index as it was",
                hint="try again; `cortext list` and `cortext show` still work",
            ) from error
        refused = unwritable(error)
    else:
        # tantivy says it in words: by its number, or only that its thread came to an end.
        number = re.search(r"os error (\d+)", str(error))
        refused = (int(number[1]) if number else getattr(error, "errno", 0)) in _REFUSED
        refused = refused or "No space" in str(error) or ("killed" in str(error) and _full(folder))
    if refused:
        raise WriteFailed(
            "could not write the search index: the disk is full, or not ours to write to",
            kept="every session, and the index as it was; a rebuild goes on where it was",
            hint="free some space and try again; `cortext list` and `cortext show` still work",
        ) from error


def _full(folder: str) -> bool:
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize < ROOM


def mark_of(state: State) -> str:
    """What the vectors of a model have seen, if they have seen all of the keywords."""
    return ":".join(map(str, seen(state)))


def seen(state: State) -> tuple[str, int]:
    """Which list of sessions was taken in, and up to which lot."""
    return state.fact("list"), int(state.fact("changed", "-1"))
