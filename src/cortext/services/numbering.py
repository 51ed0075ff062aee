"""The number of the next conversation of a workspace: one that no conversation ever had, deleted ones included.

Taken from the folders, the trash, and a mark in `.workspace/state`, which is not in git. What another clone began
and deleted is in git's history: the commits since the last look are read, once.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from cortext import fsio, locks
from cortext.model.ids import number_of
from cortext.services.publish import Git
from cortext.services.stores import NamedStore

KINDS = ("workspace", "home")
MARK = "last-number"  # the highest number ever given out here, and the commit up to which history was read
LOCK = ".last-number.lock"
TIMEOUT = 30.0  # seconds: the first look at a long history may take some
LONGEST = 6  # digits: a folder that somebody called by a date does not count
CONVERSATIONS = "conversations"


def take_number(place: NamedStore) -> int:
    """One more than the highest number that was ever in use; it is taken when this returns."""
    if place.kind not in KINDS or not os.path.isdir(place.root):  # a server, or a layout without folders
        taken = [session.id for session in place.store.sessions()] + [item.session_id for item in place.store.trash()]
        return _highest(taken) + 1
    state = os.path.join(place.root, ".workspace", "state")
    fsio.ensure_folder(state, place.root)
    lock = locks.Lock(os.path.join(state, LOCK))
    lock.acquire(TIMEOUT, "the number of the next conversation")
    with lock:
        given, seen = _read(os.path.join(state, MARK))
        git = Git(place.root)
        head = git.head()
        names = [item.session_id for item in place.store.trash()]
        names += _folders(place.root)
        if head != seen:
            names += [path.split("/")[2] for path in git.added(seen, CONVERSATIONS) if path.count("/") >= 3]
        number = max(given, _highest(names)) + 1
        fsio.replace_file(os.path.join(state, MARK), [f"{number} {head}\n".encode("ascii")])
    return number


def _highest(names: Iterable[str]) -> int:
    return max((int(digits) for digits in map(number_of, names) if digits and len(digits) <= LONGEST), default=0)


def _read(path: str) -> tuple[int, str]:
    try:
        number, _, head = fsio.read_text(path).strip().partition(" ")
        return int(number), head
    except (OSError, ValueError):
        return 0, ""


def _folders(workspace: str) -> list[str]:
    """The names of all conversations, also of those that are plain markdown."""
    top = os.path.join(workspace, CONVERSATIONS)
    days = [os.path.join(top, day) for day in os.listdir(top)] if os.path.isdir(top) else []
    return [name for day in days if os.path.isdir(day) for name in os.listdir(day)]
