"""What could not be taken in, until it is: one small file a transcript, in the state folder.

A hook that fails must not disturb the tool, and an import tells only who runs it. So each failure leaves a mark here;
`list` and `doctor` show the marks for as long as they are there, the next command tells of a new one of a hook, once.
A mark goes when the same transcript is captured. Nothing that is written here may fail a capture.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable

from cortext.config import folders
from cortext.errors import CortextError
from cortext.io import files as fsio
from cortext.model import clock
from cortext.safety.secrets.masking import mask

LONGEST = 400  # characters of a reason
MOST = 500  # marks that are kept: very many transcripts that fail have one cause


class Mark:
    """One transcript that is not captured (or, without a key, a tool whose hooks or store failed)."""

    __slots__ = ("key", "path", "since", "tool", "why")

    def __init__(self, tool: str, key: str, path: str, since: str, why: str) -> None:
        self.tool, self.key, self.path, self.since, self.why = tool, key, path, since, why

    @property
    def words(self) -> str:
        """What to tell."""
        what = f"{self.tool}: {self.path or self.key}" if self.path or self.key else self.tool or "a hook"
        return f"{what}: not captured since {self.since} because {self.why}"


def _folder() -> str:
    return os.path.join(folders.state(), "uncaptured")


def _news() -> str:
    return os.path.join(folders.state(), "hook-failed")


def _path(tool: str, key: str) -> str:
    digest = hashlib.sha256(f"{tool}\0{key}".encode("utf-8", "surrogatepass")).hexdigest()[:24]
    return os.path.join(_folder(), f"{digest}.json")


def without_path(why: str, path: str) -> str:
    """A reason that names the path itself, for where the path is named already."""
    if path and why.startswith(path):
        rest = why[len(path) :]
        return f"it{rest}" if rest.startswith(" ") else rest.removeprefix(":").strip()
    return why


def failed(tool: str, key: str, path: str, why: str, *, hook: bool = False) -> None:
    """Leave a mark; one that is there keeps its time. `hook` has the next command tell of it, once."""
    try:
        file = _path(tool, key)
        before = _read(file)
        why = " ".join(mask(without_path(why, path)).text.split())[:LONGEST]
        if before is None and len(os.listdir(_folder()) if os.path.isdir(_folder()) else ()) >= MOST:
            return
        mark = Mark(tool, key, path, before.since if before else clock.now(), why)
        fields = {name: getattr(mark, name) for name in Mark.__slots__}
        if before is None or (before.why, before.path) != (why, path):
            fsio.ensure_folder(_folder())
            fsio.replace_file(file, [json.dumps(fields).encode("ascii")])
        if hook and (before is None or before.why != why):
            fsio.replace_file(_news(), [mark.words.encode("utf-8", "replace")])
    except (OSError, CortextError):
        pass  # a disk that is full says so elsewhere


def done(tool: str, keys: Iterable[str]) -> None:
    """These transcripts are captured."""
    if os.path.isdir(_folder()):
        for key in keys:
            _forget(_path(tool, key))


def marks() -> list[Mark]:
    """What is not captured, the oldest first."""
    try:
        names = os.listdir(_folder())
    except OSError:
        return []
    found = [_read(os.path.join(_folder(), name)) for name in names if name.endswith(".json")]
    return sorted((mark for mark in found if mark is not None), key=lambda mark: (mark.since, mark.path))


def pop_notice() -> str:
    """What a hook could not do since the last command, which is then told; empty where there is nothing."""
    try:
        text = fsio.read_text(_news(), "replace")
    except OSError:
        return ""
    _forget(_news())
    return text


def forget_missing() -> None:
    """Drop the marks of transcripts whose file their tool deleted: nothing is left to capture."""
    for mark in marks():
        if mark.key and mark.path and not os.path.lexists(mark.path):
            _forget(_path(mark.tool, mark.key))


def _forget(path: str) -> None:
    try:
        if os.path.lexists(path):
            fsio.remove(path)
    except CortextError:
        pass


def _read(path: str) -> Mark | None:
    try:
        fields = json.loads(fsio.read_file(path, 1 << 16))
        return Mark(*(str(fields[name]) for name in ("tool", "key", "path", "since", "why")))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
