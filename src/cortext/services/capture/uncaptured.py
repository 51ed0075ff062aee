"""Transcripts that could not be captured: one small file for each, in the state folder.

A hook that fails must not disturb the tool, and an import reports only to whoever runs it. So each failure is recorded
here until the transcript is captured: `list` and `doctor` show it, and the next command reports a hook's failure once.
Recording a failure never raises.
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
MOST = 500  # recorded failures: if very many transcripts fail, they have one cause


class Failure:
    """One transcript that is not captured (or, without a key, a tool whose hooks or store failed)."""

    __slots__ = ("key", "path", "since", "tool", "why")

    def __init__(self, tool: str, key: str, path: str, since: str, why: str) -> None:
        self.tool, self.key, self.path, self.since, self.why = tool, key, path, since, why

    @property
    def text(self) -> str:
        """The failure as a message for the user."""
        subject = f"{self.tool}: {self.path or self.key}" if self.path or self.key else self.tool or "a hook"
        return f"{subject}: not captured since {self.since}: {self.why}"


def _folder() -> str:
    return os.path.join(folders.state(), "uncaptured")


def _notice_path() -> str:
    return os.path.join(folders.state(), "hook-failed")


def _path(tool: str, key: str) -> str:
    digest = hashlib.sha256(f"{tool}\0{key}".encode("utf-8", "surrogatepass")).hexdigest()[:24]
    return os.path.join(_folder(), f"{digest}.json")


def without_path(why: str, path: str) -> str:
    """Return a reason without the path at its start, for a message that names the path already."""
    if path and why.startswith(path):
        rest = why[len(path) :]
        return f"it{rest}" if rest.startswith(" ") else rest.removeprefix(":").strip()
    return why


def record(tool: str, key: str, path: str, why: str, *, hook: bool = False) -> None:
    """Record a failure; one that is recorded already keeps its time. With `hook`, the next command reports it once."""
    try:
        file = _path(tool, key)
        before = _read(file)
        why = " ".join(mask(without_path(why, path)).text.split())[:LONGEST]
        if before is None and len(os.listdir(_folder()) if os.path.isdir(_folder()) else ()) >= MOST:
            return
        failure = Failure(tool, key, path, before.since if before else clock.now(), why)
        fields = {name: getattr(failure, name) for name in Failure.__slots__}
        if before is None or (before.why, before.path) != (why, path):
            fsio.ensure_folder(_folder())
            fsio.replace_file(file, [json.dumps(fields).encode("ascii")])
        if hook and (before is None or before.why != why):
            fsio.replace_file(_notice_path(), [failure.text.encode("utf-8", "replace")])
    except (OSError, CortextError):
        pass  # a full disk is reported elsewhere


def clear(tool: str, keys: Iterable[str]) -> None:
    """Remove the failures of transcripts that are captured now."""
    if os.path.isdir(_folder()):
        for key in keys:
            _forget(_path(tool, key))


def failures() -> list[Failure]:
    """Return what is not captured, the oldest first."""
    try:
        names = os.listdir(_folder())
    except OSError:
        return []
    found = [_read(os.path.join(_folder(), name)) for name in names if name.endswith(".json")]
    recorded = [failure for failure in found if failure is not None]
    return sorted(recorded, key=lambda failure: (failure.since, failure.path))


def pop_notice() -> str:
    """Return the failure of a hook since the last command, once; an empty string if there is none."""
    try:
        text = fsio.read_text(_notice_path(), "replace")
    except OSError:
        return ""
    _forget(_notice_path())
    return text


def forget_missing() -> None:
    """Remove the failures of transcripts whose file the tool has deleted: nothing is left to capture."""
    for failure in failures():
        if failure.key and failure.path and not os.path.lexists(failure.path):
            _forget(_path(failure.tool, failure.key))


def _forget(path: str) -> None:
    try:
        if os.path.lexists(path):
            fsio.remove(path)
    except CortextError:
        pass


def _read(path: str) -> Failure | None:
    try:
        fields = json.loads(fsio.read_file(path, 1 << 16))
        return Failure(*(str(fields[name]) for name in ("tool", "key", "path", "since", "why")))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
