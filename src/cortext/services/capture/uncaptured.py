"""What could not be captured, or only in part: one small file for each transcript, in the state folder.

A hook that fails must not disturb the tool, and an import reports only to whoever runs it. So each failure is recorded
here until the transcript is captured: `list`, `import`, `tools`, `doctor` and the page show it, in the words of
`alarms`, and the next command reports a hook's failure once. Recording a failure never raises.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from importlib.util import find_spec
from typing import TYPE_CHECKING, NamedTuple

from cortext import __version__
from cortext.config import folders
from cortext.errors import CortextError
from cortext.io import durable
from cortext.model import clock
from cortext.safety.secrets.masking import mask

if TYPE_CHECKING:
    from cortext.tools.base import Transcript

TRANSCRIPT, LEFTOVER, PART = "", "leftover", "part"  # not captured; not even listed; captured without some records
LONGEST = 400  # characters of a reason
MOST = 500  # recorded failures: if very many transcripts fail, they have one cause


class Failure:
    """One transcript that is not captured (or, without a key, a tool whose hooks or store failed).

    `version` is the tool's when it was noticed, `cortext` our `reader` when it was last tried; each may be unknown.
    """

    __slots__ = ("cortext", "key", "kind", "path", "since", "tool", "version", "why")

    def __init__(
        self, tool: str, key: str, path: str, since: str, why: str, kind: str = "", version: str = "", cortext: str = ""
    ) -> None:
        self.tool, self.key, self.path, self.since, self.why = tool, key, path, since, why
        self.kind, self.version, self.cortext = kind, version, cortext

    @property
    def text(self) -> str:
        """The failure as a message for the user."""
        subject = f"{self.tool}: {self.path or self.key}" if self.path or self.key else self.tool or "a hook"
        state = "read in part" if self.kind == PART else "not captured"
        return f"{subject}: {state} since {clock.minute(self.since)}{self.with_version}: {self.why}"

    @property
    def with_version(self) -> str:
        """The tool's version as a part of a message; empty if it is not known."""
        return f" (with version {self.version})" if self.version else ""


class Alarm(NamedTuple):
    """What one tool's transcripts have in common: they are not captured, or only in part."""

    tool: str
    is_part: bool
    failures: list[Failure]

    @property
    def text(self) -> str:
        """The alarm as a message for the user; one failure alone says all of it."""
        first = self.failures[0]
        if len(self.failures) == 1:
            return first.text
        state = "were read only in part" if self.is_part else "could not be read"
        count = f"{len(self.failures)} {'or more ' * (len(self.failures) >= MOST)}conversations"
        since = f"{clock.minute(first.since)}{first.with_version}"
        return f"{self.tool}: {count} {state} since {since}; the first: {first.path}: {first.why}"


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


def reader() -> str:
    """Return what determines which records can be read: our version, and whether a library for zstd is installed."""
    names = ("compression", "backports")  # of Python itself, and of the library
    is_there = any(find_spec(name) is not None and find_spec(f"{name}.zstd") is not None for name in names)
    return f"{__version__}+zst" if is_there else __version__


def record(
    tool: str, key: str, path: str, why: str, *, hook: bool = False, kind: str = TRANSCRIPT, version: str = ""
) -> None:
    """Record a failure; one that is recorded already keeps its time. With `hook`, the next command reports it once."""
    try:
        file = _path(tool, key)
        before = _read(file)
        why = " ".join(mask(without_path(why, path)).text.split())[:LONGEST]
        if before is None and len(os.listdir(_folder()) if os.path.isdir(_folder()) else ()) >= MOST:
            return
        since = before.since if before else clock.now()
        failure = Failure(tool, key, path, since, why, kind, before.version if before else version, reader())
        fields = {name: getattr(failure, name) for name in Failure.__slots__}
        if before is None or any(getattr(before, name) != fields[name] for name in ("why", "path", "kind", "cortext")):
            durable.ensure_folder(_folder())
            durable.replace_file(file, [json.dumps(fields).encode("ascii")])
        if hook and (before is None or before.why != why):
            durable.replace_file(_notice_path(), [failure.text.encode("utf-8", "replace")])
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


def alarms(found: Iterable[Failure] | None = None) -> list[Alarm]:
    """Return the failures by tool: those that are not captured, then those that are captured in part."""
    groups: dict[tuple[bool, str], list[Failure]] = {}
    for failure in failures() if found is None else found:
        groups.setdefault((failure.kind == PART, failure.tool), []).append(failure)
    return [Alarm(tool, is_part, group) for (is_part, tool), group in sorted(groups.items(), key=lambda item: item[0])]


def settle(tool: str, listed: Iterable[Transcript], leftovers: Iterable[str] | None = None) -> None:
    """Remove what a look at a tool's transcripts no longer finds: a database that can be read again, for example.

    It is listed as one transcript while it cannot be read. With `leftovers` (their keys), the look was at the whole
    store.
    """
    from cortext.tools.shared.sqlite import DAMAGED_DATABASE

    listed = list(listed)
    keys, paths = {transcript.key for transcript in listed} | set(leftovers or ()), {item.path for item in listed}
    is_all = leftovers is not None
    for failure in failures():
        if failure.tool != tool or not failure.key or failure.key in keys:
            continue
        stood_for_others = failure.key.startswith(DAMAGED_DATABASE) and (is_all or failure.path in paths)
        if stood_for_others or (is_all and (failure.kind == LEFTOVER or failure.path in paths)):
            _forget(_path(tool, failure.key))


def pop_notice() -> str:
    """Return the failure of a hook since the last command, once; an empty string if there is none."""
    try:
        text = durable.read_text(_notice_path(), "replace")
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
            durable.remove(path)
    except CortextError:
        pass


def _read(path: str) -> Failure | None:
    try:
        fields = json.loads(durable.read_file(path, 1 << 16))
        known = (str(fields[name]) for name in ("tool", "key", "path", "since", "why"))
        return Failure(*known, *(str(fields.get(name) or "") for name in ("kind", "version", "cortext")))
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
