"""When the releases of a project were made, by the tags of its repository."""

from __future__ import annotations

import re

from cortext.model import clock
from cortext.services.workspace.git import Git
from cortext.services.workspace.repository import top_of

TIMEOUT = 2.0  # seconds
MOST = 1_000  # tags that are looked at, the newest first
_VERSION = re.compile(r"\d+(?:\.\d+)*")


def release_time(folder: str, version: str) -> str:
    """Return when this version of the project in a folder was tagged (empty: the newest); empty if there is no tag."""
    top = top_of(folder)
    if not top:
        return ""
    words = ("for-each-ref", f"--count={MOST}", "--sort=-creatordate", "--format=%(creatordate:unix) %(refname:short)")
    listed = Git(top).reading(*words, "refs/tags", timeout=TIMEOUT) or b""
    for line in listed.decode("utf-8", "replace").splitlines():
        made, _, name = line.partition(" ")
        found = _VERSION.search(name)
        if found is not None and made.isdigit() and (not version or found[0] == version):
            return clock.from_epoch(int(made))
    return ""
