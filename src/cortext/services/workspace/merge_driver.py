"""Git's merge driver for sessions: installed by `init`, called by git for each file that both sides changed."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from cortext.errors import UnsafePath
from cortext.io import inside
from cortext.services.workspace.git import Git
from cortext.store.base import GIT_MARKS, Damage
from cortext.store.files.lines import BadLine
from cortext.store.files.merge import merge_logs, merge_metadata

# A clone with `core.autocrlf` must not change the line ends of what is ours: they are hashed, and appended to.
_LINE_ENDS = "text eol=lf"
ATTRIBUTES = (
    f"conversations/**/.session/*.jsonl {_LINE_ENDS} merge=cortext",
    f"conversations/**/.session/session.json {_LINE_ENDS} merge=cortext",
)
_OWN = f"/.gitattributes {_LINE_ENDS}"  # else `upgrade` would find its own lines changed
_OURS = re.compile(r"(?:^|/)workspace[.-]")  # the beginning of the name of a command's file or folder
SECTION = "merge.cortext"


def attributes(paths: Iterable[str]) -> list[str]:
    """Return the lines for `.gitattributes`: for the sessions, and for the files of ours at these paths."""
    patterns: dict[str, None] = {}
    for path in sorted(paths):
        mark = _OURS.search(path)
        if path.startswith(".workspace/"):
            patterns[".workspace/**"] = None
        elif mark:
            patterns[f"{path[: mark.end()]}*{'/**' if '/' in path[mark.end() :] else ''}"] = None
        else:
            patterns[path] = None
    return [*ATTRIBUTES, _OWN, *(f"{pattern} {_LINE_ENDS}" for pattern in patterns)]


def set_driver(git: Git, program: str, *, dry_run: bool = False) -> bool:
    """Tell this clone's git how to merge sessions; return whether that was new.

    The attributes travel with the repository; this setting does not.
    """
    wanted = {
        f"{SECTION}.name": "cortext: keeps every message of both sides",
        f"{SECTION}.driver": f"{program} merge-driver %O %A %B %P",
    }
    new = {key: value for key, value in wanted.items() if git.config(key) != value}
    if not dry_run:
        for key, value in new.items():
            git.config(key, value)
        return any(git.config(key) == value for key, value in new.items())  # false in a read-only repository
    return bool(new)


def has_attributes(root: str) -> bool:
    """Whether the repository names the files that the driver merges, and their line ends."""
    try:
        raw = inside.read(root, ".gitattributes") or b""
    except (OSError, UnsafePath):
        return False
    return set(ATTRIBUTES) <= set(raw.decode("utf-8", "replace").splitlines())


def unset_driver(git: Git, *, dry_run: bool = False) -> bool:
    """Remove the setting; return whether it existed."""
    exists = bool(git.config(f"{SECTION}.name") or git.config(f"{SECTION}.driver"))
    if exists and not dry_run:
        git.unset(SECTION)
    return exists


def was_conflict(damage: Iterable[Damage]) -> bool:
    """Whether a session was damaged by git's conflict markers."""
    return any(item.reason == GIT_MARKS for item in damage)


def merge_file(base: str, ours: str, theirs: str, path: str) -> bool:
    """Merge one file into `ours`; return False if that is impossible and git should show a conflict."""
    try:
        if os.path.basename(path) == "session.json":
            merge_metadata(base, ours, theirs)
        else:
            merge_logs(base, ours, theirs)
    except BadLine:
        return False
    return True
