"""Where the files of each layout lie, for those who only look at names and times; nothing heavy is imported here."""

from __future__ import annotations

import os
from collections.abc import Iterator

# In a store's control folder: which sessions its writers touched, one id a line (a hint for the list of sessions).
CHANGES = "changes"

# The files of one session, relative to its path: the log first. A spawn session is a single file.
FILES = {
    "workspace": (".session/messages.jsonl", ".session/session.json", ".session/archive.jsonl"),
    "home": (".session/messages.jsonl", ".session/session.json", ".session/archive.jsonl"),
    "spawn": ("",),
    "chat": ("current.jsonl", "meta.json", "summary.json", "archive.jsonl"),
}


def session_ids(kind: str, root: str) -> Iterator[str]:
    """The names of all sessions of a store, by its folders alone. They are not checked."""
    if kind in ("workspace", "home"):
        yield from (os.path.basename(path) for path in conversations(root) if is_workspace_session(path))
    elif kind == "spawn":
        yield from (name[:-6] for name in _names(root) if name.endswith(".jsonl"))
    else:
        yield from (name for path in folders(root) if not (name := os.path.basename(path)).startswith("."))


def conversations(root: str) -> Iterator[str]:
    """The folders of all conversations of a workspace, with a session or without."""
    for day in folders(os.path.join(root, "conversations")):
        yield from folders(day)


def is_workspace_session(folder: str) -> bool:
    """Whether a conversation's folder holds a session (else it is plain markdown)."""
    return os.path.exists(f"{folder}/.session/session.json") or os.path.exists(f"{folder}/.session/messages.jsonl")


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
