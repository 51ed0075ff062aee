"""One search index in one folder: keywords, word list, vectors, and the state that says how far they are."""

from __future__ import annotations

import errno
import json
import os
import re
import sqlite3
from typing import TYPE_CHECKING, NamedTuple

from cortext.errors import SessionBusy, WriteFailed
from cortext.index.database import is_unwritable, locked
from cortext.index.search.keywords import Keywords, WordList
from cortext.index.search.state import IndexState
from cortext.io import durable

if TYPE_CHECKING:
    from cortext.index.search.meaning import Meaning


class Status(NamedTuple):
    """What the index holds; `bytes` maps each part to its size."""

    folder: str
    sessions: int
    messages: int
    bytes: dict[str, int]
    model: str
    embedded: int
    behind: bool


ROOM = 16 << 20  # a disk with less free space than this counts as full
_REFUSED = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM)
BROKEN = (ValueError, OSError, sqlite3.DatabaseError)  # what reading a damaged index raises


class Generation:
    """A search index in its own folder."""

    def __init__(self, folder: str) -> None:
        durable.ensure_folder(folder)
        self.folder = folder
        self.state = IndexState(folder)
        self.words = WordList(folder)
        self.keywords = Keywords(os.path.join(folder, "keywords"))
        self._meanings: dict[str, Meaning] = {}

    def meaning(self, model: str) -> Meaning:
        """Return the vectors of a model."""
        from cortext.index.search.meaning import Meaning

        if model not in self._meanings:
            self._meanings[model] = Meaning(self.folder, self.state, model)
        return self._meanings[model]

    def close(self) -> None:
        self.state.close()


def skipped(state: IndexState) -> list[str]:
    """Return stores whose sessions were listed but not indexed, because the store was not configured at that time."""
    found: list[str] = json.loads(state.fact("skipped", "[]"))
    return found


def check_space(error: Exception, folder: str) -> None:
    """Raise if the disk is full or read-only, or the database locked. That is not damage: the index is kept."""
    if isinstance(error, sqlite3.DatabaseError):
        if locked(error):
            raise SessionBusy(
                "another process is using the search index database",
                kept="every session, and the index as it was",
                hint="try again; `cortext list` and `cortext show` still work",
            ) from error
        refused = is_unwritable(error)
    else:
        # tantivy reports it in text only: an OS error number, or just that its thread was killed.
        number = re.search(r"os error (\d+)", str(error))
        refused = (int(number[1]) if number else getattr(error, "errno", 0)) in _REFUSED
        refused = refused or "No space" in str(error) or ("killed" in str(error) and _full(folder))
    if refused:
        raise WriteFailed(
            "could not write the search index: the disk is full or not writable",
            kept="every session, and the index as it was; a rebuild continues where it stopped",
            hint="free some space and try again; `cortext list` and `cortext show` still work",
        ) from error


def _full(folder: str) -> bool:
    status = os.statvfs(folder)
    return status.f_bavail * status.f_frsize < ROOM


def mark_of(state: IndexState) -> str:
    """Return the mark that a model's vectors carry once they cover all keywords."""
    return ":".join(map(str, seen(state)))


def seen(state: IndexState) -> tuple[str, int]:
    """Return the identity of the indexed session list, and the number of the last batch indexed."""
    return state.fact("list"), int(state.fact("changed", "-1"))
