"""The paths of each layout: where a session's files are in its store. No other module contains them.

Nothing heavy is imported here, because the list of sessions needs only names and times.

A path from a store's root to a folder in it is checked here, without following symbolic links.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import NamedTuple

from cortext.errors import UnsafePath

CONVERSATIONS = "conversations"  # in a workspace: a folder per day, which contains a folder per conversation
SESSION = ".session"  # in a conversation's folder: the session; everything else is the user's
NATIVE = "native"  # in `.session`: the transcript as the AI tool wrote it
EARLIER = "earlier"  # in `.session`: the largest earlier copy, if the tool's file is not a continuation of it
STATE = os.path.join(".workspace", "state")  # the control folder of a workspace
NUMBER_FILE = "last-number"  # in it: the highest number ever assigned here, and the commit up to which history was read
NUMBER_LOCK = ".last-number.lock"
LOCKS = "locks"  # in a control folder
TRASH = "trash"
INCOMING = "incoming"  # sessions that are being built
REPOSITORY = "repository"  # in the folder of a repository's safety copies: which repository it is
OWNER = "work-tree"  # in the copy of a conversation: the workspace that it was last written in
CHANGES = "changes"  # the ids of sessions that were written, one per line: a hint for the list of sessions


class SessionFiles(NamedTuple):
    """The paths of one session: `path` is what moves when it is deleted.

    `archive` contains the older messages in a layout that can be compacted; `summary` contains the summary in a layout
    whose metadata does not. Both are empty in other layouts.
    """

    session_id: str
    path: str
    log: str
    metadata: str
    archive: str = ""
    summary: str = ""


# The files of one session, relative to its path: the log first, an archive last. A spawn session is a single file.
_WORKSPACE = (f"{SESSION}/messages.jsonl", f"{SESSION}/session.json", f"{SESSION}/archive.jsonl")
FILES = {
    "workspace": _WORKSPACE,
    "home": _WORKSPACE,
    "spawn": ("",),
    "chat": ("current.jsonl", "meta.json", "summary.json", "archive.jsonl"),
}
SPAWN_SUFFIX = ".jsonl"


def workspace_files(day: str, session_id: str) -> SessionFiles:
    """Return the files of a conversation in a day's folder."""
    path = os.path.join(day, session_id)
    return SessionFiles(session_id, path, *(os.path.join(path, name) for name in FILES["workspace"]))


def spawn_files(root: str, session_id: str) -> SessionFiles:
    """Return the paths of a spawn session, which is a single file."""
    path = os.path.join(root, session_id + SPAWN_SUFFIX)
    return SessionFiles(session_id, path, log=path, metadata=path)


def chat_files(root: str, session_id: str) -> SessionFiles:
    """Return the files of an assistant's session."""
    path = os.path.join(root, session_id)
    log, metadata, summary, archive = (os.path.join(path, name) for name in FILES["chat"])
    return SessionFiles(session_id, path, log, metadata, archive, summary)


def control_folder(kind: str, root: str) -> str:
    """Return the folder of a store that contains locks and trash."""
    return os.path.join(root, STATE if kind in ("workspace", "home") else ".cortext")


def lock_file(control: str, session_id: str) -> str:
    """Return the path of a session's lock file."""
    return os.path.join(control, LOCKS, f"{session_id}.lock")


def native_copy(path: str) -> str:
    """Return the path of the tool's transcript, which is kept with the session."""
    return os.path.join(path, SESSION, NATIVE)


def earlier_copy(path: str) -> str:
    """Return the path of the copy that the tool's own file did not continue."""
    return os.path.join(path, SESSION, EARLIER, NATIVE)


def session_ids(kind: str, root: str) -> Iterator[str]:
    """Return the ids of all sessions of a store, from file names alone. They are not validated."""
    if kind in ("workspace", "home"):
        yield from (os.path.basename(path) for path in conversations(root) if is_workspace_session(path))
    elif kind == "spawn":
        yield from (name.removesuffix(SPAWN_SUFFIX) for name in _names(root) if name.endswith(SPAWN_SUFFIX))
    else:
        yield from (name for path in folders(root) if not (name := os.path.basename(path)).startswith("."))


def conversations(root: str) -> Iterator[str]:
    """Return the folders of all conversations of a workspace, with or without a session."""
    for day in folders(os.path.join(root, CONVERSATIONS)):
        yield from folders(day)


def in_folder(path: str) -> SessionFiles:
    """Return the files of the conversation in this folder."""
    return workspace_files(*os.path.split(path))


def is_workspace_session(folder: str) -> bool:
    """Whether a conversation's folder contains a session; if not, it is plain Markdown."""
    log, metadata, _ = _WORKSPACE
    return os.path.exists(f"{folder}/{metadata}") or os.path.exists(f"{folder}/{log}")


def folders(path: str) -> list[str]:
    """Return the paths of the real folders in a folder, sorted; links and files are left out."""
    try:
        with os.scandir(path) as entries:
            return sorted(entry.path for entry in entries if entry.is_dir(follow_symlinks=False))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _names(path: str) -> list[str]:
    try:
        return sorted(os.listdir(path))
    except FileNotFoundError:
        return []


class Folders:
    """Checks that a path leads from the root through real folders only.

    A checked folder is remembered by its inode, so checking it again costs one `lstat`. A link that is created between
    the check and the use is not noticed: whoever can write to the store's folders can change its files anyway.
    """

    def __init__(self, root: str, also: str = "") -> None:
        """`also` is a second root: the folder of the safety copies of a workspace."""
        self.root = root
        self.also = also
        self._checked: dict[str, tuple[int, int]] = {}

    def check(self, path: str) -> str:
        """Return the path, or raise UnsafePath. Folders that do not exist yet are not checked."""
        try:
            now = os.lstat(path)  # not stat: it would return the inode that a link points to
        except OSError:
            now = None
        if now is not None and self._checked.get(path) == (now.st_dev, now.st_ino):
            return path
        step = self.also if self.also and path.startswith(self.also + os.sep) else self.root
        relative = os.path.relpath(path, step)
        for name in relative.split(os.sep):
            if name == "..":
                raise UnsafePath(f"{path} is outside {self.root}", kept="nothing was changed")
            step = os.path.join(step, name)
            try:
                mode = os.lstat(step).st_mode
            except OSError:
                return path
            if stat.S_ISLNK(mode):
                raise UnsafePath(
                    f"{step} is a symbolic link",
                    kept="it was not followed",
                    hint="replace the link with the folder that it points to",
                )
        if now is not None:
            self._checked[path] = (now.st_dev, now.st_ino)
        return path

    def names(self, path: str) -> list[str]:
        """Return the names of the real folders in a folder, sorted; links and files are left out."""
        self.check(path)
        try:
            with os.scandir(path) as entries:
                return sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
        except (FileNotFoundError, NotADirectoryError):
            return []
