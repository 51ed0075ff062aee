"""Where Kimi Code keeps its sessions, and how a folder of ours next to a copy holds the same files.

A session is the folder `sessions/wd_<name>_<hash of the path>/<id>` with `state.json` and one event log for each agent.
Kimi Code finds sessions by listing the folders; `session_index.jsonl` is only appended to, and left alone by us.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator

import msgspec

from cortext.io import durable, new_files
from cortext.tools.base import Transcript
from cortext.tools.kimi_code.records import State

TOOL = "kimi"
LOG = "wire.jsonl"
# What Kimi Code keeps beside the logs of a session's agents.
COMPANIONS = (
    *("*/*/state.json", "*/*/metadata.json", "*/*/session-meta*", "*/*/notify/", "*/*/logs/", "*/*/media-originals/"),
    *("*/*/attachments/", "*/*/agents/*/tasks/", "*/*/agents/*/cron/", "*/*/agents/*/blobs/", "*/*/agents/*/plans/"),
)
KEY = re.compile(r"session_[0-9A-Za-z-]{8,64}")
_FIRST = re.compile(rb'\s*\{\s*"type"\s*:\s*"metadata"\s*,[^\n]{0,200}"protocol_version"')
_state = msgspec.json.Decoder(State)


class KimiStore:
    """The folder `sessions` in the home of Kimi Code."""

    def __init__(self, home: str) -> None:
        self.home = home
        self.sessions = os.path.join(home, "sessions")

    def folder_for(self, project: str, key: str) -> str:
        """Return the folder of a session of this project."""
        return os.path.join(self.sessions, workspace_name(project), key)

    def folders(self) -> Iterator[str]:
        """Yield the folders of all sessions."""
        for workspace in _names(self.sessions):
            for key in _names(os.path.join(self.sessions, workspace)) if workspace.startswith("wd_") else ():
                if KEY.fullmatch(key):
                    yield os.path.join(self.sessions, workspace, key)

    def transcripts(self, project: str | None) -> Iterator[Transcript]:
        """Yield the sessions, or those of one project."""
        wanted = None if project is None else os.path.realpath(project)
        for folder in self.folders():
            found = transcript_at(log_in(folder))
            if found is not None and (wanted is None or os.path.realpath(found.project or os.sep) == wanted):
                yield found

    def changed(self, path: str) -> list[Transcript]:
        """Return the session in whose folder a file is: its log, a subagent's log, its state."""
        steps = os.path.relpath(path, self.sessions).split(os.sep)
        is_below = len(steps) > 2 and steps[0].startswith("wd_")
        found = transcript_at(log_in(os.path.join(self.sessions, *steps[:2]))) if is_below else None
        return [found] if found is not None else []

    def find(self, key: str) -> str:
        """Return the folder of a session; empty if there is none."""
        return next((folder for folder in self.folders() if os.path.basename(folder) == key), "")


def workspace_name(project: str) -> str:
    """Return the name that Kimi Code gives to the folder of a project: its last part, and a hash of all of it."""
    project = os.path.realpath(project)
    name = re.sub(r"[^a-z0-9._-]+", "-", os.path.basename(project).lower()).strip("-")[:40].strip("-")
    digest = hashlib.sha256(project.encode("utf-8", "surrogateescape")).hexdigest()[:12]
    return f"wd_{'workspace' if name in ('', '.', '..') else name}_{digest}"


def log_in(folder: str) -> str:
    """Return the path of the main agent's log in the folder of a session."""
    return os.path.join(folder, "agents", "main", LOG)


def transcript_at(path: str) -> Transcript | None:
    """Return the transcript in a log of Kimi Code's, or in a copy of one; None for any other file."""
    try:
        with open(path, "rb", opener=durable.plain_file) as file:
            is_log = _FIRST.match(file.read(512)) is not None
    except OSError:
        return None
    state = state_of(path)
    folder = _session_folder(path)
    key = os.path.basename(folder) if folder else state.id
    if not KEY.fullmatch(key) or not (is_log or folder):
        return None
    sizes, times = zip(*map(_status, (path, *agents_of(path).values())), strict=True)
    return Transcript(tool=TOOL, key=key, path=path, project=state.cwd, size=sum(sizes), changed=max(times))


def state_of(path: str) -> State:
    """Return what the file `state.json` of a session says; an empty one if it cannot be read."""
    try:
        return _state.decode(durable.read_file(_state_path(path)))
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return State()


def agents_of(path: str) -> dict[str, str]:
    """Return the logs of the subagents of a session, by name."""
    folder = _session_folder(path)
    if not folder:
        names = [name for name in _names(f"{path}.files") if name.endswith(".jsonl")]
        return {name.removesuffix(".jsonl"): os.path.join(f"{path}.files", name) for name in names}
    agents = os.path.join(folder, "agents")
    logs = {name: os.path.join(agents, name, LOG) for name in _names(agents) if name != "main"}
    return {name: log for name, log in logs.items() if os.path.isfile(log)}


def copy(path: str, target: str, later: new_files.Later | None = None) -> None:
    """Copy a log, and beside it the logs of the subagents and `state.json`."""
    beside = f"{target}.files"
    new_files.mirror_file(path, target, later)
    new_files.ensure_folder(beside, later)
    for name, log in agents_of(path).items():
        new_files.mirror_file(log, os.path.join(beside, f"{name}.jsonl"), later)
    if os.path.isfile(_state_path(path)):
        new_files.mirror_file(_state_path(path), os.path.join(beside, "state.json"), later)


def put_back(path: str, folder: str) -> None:
    """Restore a copy to the folder of a session that Kimi Code has lost."""
    logs = {"main": path, **agents_of(path)}
    for name, log in logs.items():
        new_files.ensure_folder(os.path.join(folder, "agents", name), None)
        new_files.mirror_file(log, os.path.join(folder, "agents", name, LOG))
    new_files.mirror_file(_state_path(path), os.path.join(folder, "state.json"))


def _session_folder(path: str) -> str:
    """Return the folder of the session that a log belongs to; empty for a copy in another place."""
    parts = path.split(os.sep)
    return os.sep.join(parts[:-3]) if parts[-3:] == ["agents", "main", LOG] and KEY.fullmatch(parts[-4]) else ""


def _state_path(path: str) -> str:
    return os.path.join(_session_folder(path) or f"{path}.files", "state.json")


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []


def _status(path: str) -> tuple[int, int]:
    try:
        status = os.stat(path)
    except OSError:
        return 0, 0
    return status.st_size, status.st_mtime_ns
