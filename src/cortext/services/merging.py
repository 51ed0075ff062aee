"""Git's merge driver for sessions: installed by `init`, called by git for each file that both sides changed."""

from __future__ import annotations

import os

from cortext.services.publish import Git
from cortext.store.lines import BadLine
from cortext.store.merge import merge_logs, merge_metadata

ATTRIBUTES = (
    "conversations/**/.session/*.jsonl merge=cortext",
    "conversations/**/.session/session.json merge=cortext",
)
SECTION = "merge.cortext"


def install_driver(folder: str, program: str) -> None:
    """Tell this clone's git how to merge sessions. The attributes travel with the repository, this does not."""
    git = Git(folder)
    git.config(f"{SECTION}.name", "cortext: keeps every message of both sides")
    git.config(f"{SECTION}.driver", f"{program} merge-driver %O %A %B %P")


def merge_file(base: str, ours: str, theirs: str, path: str) -> bool:
    """Merge one file into `ours`; False where it cannot be done, and git is to show a conflict."""
    try:
        if os.path.basename(path) == "session.json":
            merge_metadata(base, ours, theirs)
        else:
            merge_logs(base, ours, theirs)
    except BadLine:
        return False
    return True
