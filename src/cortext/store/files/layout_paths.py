"""The paths of each layout: where a session's files are in its store. No other module contains them.

Nothing heavy is imported here, because the list of sessions needs only names and times. For the same reason this module
says which conversations are read from their safety copy; `safety_copies` writes them.

A path from a store's root to a folder in it is checked here, without following symbolic links.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Collection, Iterator
from typing import NamedTuple

from cortext.errors import CortextError, UnsafePath
from cortext.io import durable, new_files

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


class CopiesView:
    """The safety copies of one workspace, as a reader sees them (`safety_copies` writes them).

    `trees` returns the same workspace in each work tree that exists.
    """

    def __init__(self, folder: str, root: str, trees: Callable[[], list[str]]) -> None:
        self.folder, self.root, self._trees = folder, root, trees

    def view(self, path: str) -> str:
        """Return the folder to read the conversation of this folder from: its own, unless the copy continues it."""
        copy = self._copy_of(path)
        return copy if copy and is_behind(in_folder(path).log, in_folder(copy).log) else path

    def away(self, present: Collection[str] = ()) -> Iterator[str]:
        """Yield the copies of conversations that are in no work tree; those that are `present` are left out."""
        paths = [path for path in conversations(self.folder) if os.path.basename(path) not in present]
        trees = self._trees() if paths else []
        for path in paths:
            if is_workspace_session(path) and self._is_away(path, trees):
                yield path

    def locate(self, session_id: str) -> str:
        """Return the copy of a session that is in no work tree; empty if there is none."""
        path = self._find(session_id)
        return path if path and self._is_away(path, self._trees()) else ""

    def is_copy(self, path: str) -> bool:
        """Whether this is the path of a copy."""
        return path.startswith(self.folder + os.sep)

    def in_tree(self, copy: str) -> str:
        """Return the path in the work tree of a copy's conversation."""
        return self.root + copy[len(self.folder) :]

    def _copy_of(self, path: str) -> str:
        """Return the path of the copy of a folder in the work tree; empty if it is itself in no work tree."""
        return self.folder + path[len(self.root) :] if path.startswith(self.root + os.sep) else ""

    def _find(self, session_id: str) -> str:
        paths = (path for path in conversations(self.folder) if os.path.basename(path) == session_id)
        return next(filter(is_workspace_session, paths), "")

    def _is_away(self, copy: str, trees: list[str]) -> bool:
        """Whether no work tree has this session, and it belongs to ours: it was written there, or that is gone."""
        inside = copy[len(self.folder) :]
        if any(is_workspace_session(tree + inside) for tree in trees):
            return False
        try:
            owner = durable.read_text(os.path.join(copy, OWNER))
        except (OSError, UnicodeDecodeError):
            owner = ""
        return (owner if owner in trees else trees[0] if trees else self.root) == self.root


def is_behind(log: str, copy: str) -> bool:
    """Whether a log is shorter than its copy and the copy continues it: git has put an older one in its place."""
    try:
        copied = os.stat(copy).st_size
        try:
            size = os.stat(log).st_size
        except FileNotFoundError:
            return True
        return size < copied and new_files.is_continued(copy, log)
    except (OSError, CortextError):
        return False
