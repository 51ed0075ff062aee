"""The number of a workspace's next conversation: one that no conversation ever had, including deleted ones.

Taken from the folders, the trash, and a file in `.workspace/state`, which is not in git. What another clone created and
deleted is in git's history: the commits since the last check are read once.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from cortext.io import durable, inside, locks
from cortext.model import ids
from cortext.model.session import Session
from cortext.services.library.stores import NamedStore
from cortext.services.projects.git import Git
from cortext.store.files.layout_paths import CONVERSATIONS, STATE, conversations

KINDS = ("workspace", "home")
NUMBER_FILE = "last-number"  # the highest number ever assigned here, and the commit up to which history was read
LOCK = ".last-number.lock"
TIMEOUT = 30.0  # seconds: the first scan of a long history may take some
LONGEST = 6  # digits: a folder that someone named by a date does not count


def numbered(session: Session, number: int) -> str:
    """Return the id of a conversation with this number: its folder's name."""
    return ids.check_id(f"{number:03d}-{session.type}-{ids.slug(session.title) or 'untitled'}"[:96])


def reserve_number(named_store: NamedStore) -> int:
    """Return one more than the highest number ever used; it is reserved when this returns."""
    if named_store.kind not in KINDS or not os.path.isdir(named_store.root):  # a server, or a layout without folders
        taken = [session.id for session in named_store.store.sessions()] + [
            item.session_id for item in named_store.store.trash()
        ]
        return _highest(taken) + 1
    state = inside.inside(named_store.root, STATE)
    durable.ensure_folder(state, named_store.root)
    lock = locks.Lock(os.path.join(state, LOCK))
    lock.acquire(TIMEOUT, "the number of the next conversation")
    with lock:
        given, seen = _read(named_store.root, os.path.join(state, NUMBER_FILE))
        git = Git(named_store.root)
        head = git.head()
        names = [item.session_id for item in named_store.store.trash()]
        names += _folders(named_store.root)
        if head != seen:
            names += [path.split("/")[2] for path in git.added(seen, CONVERSATIONS) if path.count("/") >= 3]
        number = max(given, _highest(names)) + 1
        inside.write(named_store.root, os.path.join(state, NUMBER_FILE), f"{number} {head}\n".encode("ascii"))
    return number


def last_number(named_store: NamedStore) -> int:
    """Return the number that was assigned last; 0 if unknown."""
    if named_store.kind not in KINDS:
        return 0
    return _read(named_store.root, inside.inside(named_store.root, os.path.join(STATE, NUMBER_FILE)))[0]


def _highest(names: Iterable[str]) -> int:
    return max((int(digits) for digits in map(ids.number_of, names) if digits and len(digits) <= LONGEST), default=0)


def _read(root: str, path: str) -> tuple[int, str]:
    try:
        number, _, head = (inside.read(root, path) or b"").decode("ascii").strip().partition(" ")
        return int(number), head
    except (OSError, ValueError):
        return 0, ""


def _folders(workspace: str) -> list[str]:
    """Return the names of all conversations, including those that are plain markdown."""
    return [os.path.basename(path) for path in conversations(workspace)]
