"""The paths of each layout: where a session's files lie in its store. No other module spells them.

Nothing heavy is imported here, because the list of sessions only looks at names and times.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

CONVERSATIONS = "conversations"  # in a workspace: a folder a day, in it a folder a conversation
SESSION = ".session"  # in a conversation's folder: what is ours
NATIVE = "native"  # in `.session`: the transcript as the AI tool wrote it
STATE = os.path.join(".workspace", "state")  # the control folder of a workspace
LOCKS = "locks"  # in a control folder
TRASH = "trash"
INCOMING = "incoming"  # sessions that are being built
CHANGES = "changes"  # which sessions were written, one id a line: a hint for the list of sessions


class SessionFiles(NamedTuple):
    """The paths of one session: `path` is what moves when it is deleted.

    `archive` holds the older messages of a layout that can be compacted, `summary` the summary where it is not part of
    the metadata; both are empty in other layouts.
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
    """The files of a conversation that is filed under a day's folder."""
    path = os.path.join(day, session_id)
    return SessionFiles(session_id, path, *(os.path.join(path, name) for name in FILES["workspace"]))


def spawn_files(root: str, session_id: str) -> SessionFiles:
    """The one file of a spawn session."""
    path = os.path.join(root, session_id + SPAWN_SUFFIX)
    return SessionFiles(session_id, path, log=path, metadata=path)


def chat_files(root: str, session_id: str) -> SessionFiles:
    """The files of an assistant's session."""
    path = os.path.join(root, session_id)
    log, metadata, summary, archive = (os.path.join(path, name) for name in FILES["chat"])
    return SessionFiles(session_id, path, log, metadata, archive, summary)


def control_folder(kind: str, root: str) -> str:
    """The folder of a store that holds locks and trash."""
    return os.path.join(root, STATE if kind in ("workspace", "home") else ".cortext")


def lock_file(control: str, session_id: str) -> str:
    """The lock file of a session."""
    return os.path.join(control, LOCKS, f"{session_id}.lock")


def native_copy(path: str) -> str:
    """The tool's own transcript, kept beside our session."""
    return os.path.join(path, SESSION, NATIVE)


def session_ids(kind: str, root: str) -> Iterator[str]:
    """The names of all sessions of a store, by its folders alone. They are not checked."""
    if kind in ("workspace", "home"):
        yield from (os.path.basename(path) for path in conversations(root) if is_workspace_session(path))
    elif kind == "spawn":
        yield from (name.removesuffix(SPAWN_SUFFIX) for name in _names(root) if name.endswith(SPAWN_SUFFIX))
    else:
        yield from (name for path in folders(root) if not (name := os.path.basename(path)).startswith("."))


def conversations(root: str) -> Iterator[str]:
    """The folders of all conversations of a workspace, with a session or without."""
    for day in folders(os.path.join(root, CONVERSATIONS)):
        yield from folders(day)


def is_workspace_session(folder: str) -> bool:
    """Whether a conversation's folder holds a session (else it is plain markdown)."""
    log, metadata, _ = _WORKSPACE
    return os.path.exists(f"{folder}/{metadata}") or os.path.exists(f"{folder}/{log}")


def folders(path: str) -> list[str]:
    """The real folders in a folder, in order; links and files are left out."""
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
