"""Git's merge driver for sessions, called by git for each file that both sides changed: `projects.git` installs it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from cortext.errors import UnsafePath
from cortext.io import inside
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


def has_attributes(root: str) -> bool:
    """Whether the repository names the files that the driver merges, and their line ends."""
    try:
        raw = inside.read(root, ".gitattributes") or b""
    except (OSError, UnsafePath):
        return False
    return set(ATTRIBUTES) <= set(raw.decode("utf-8", "replace").splitlines())


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
