"""Where the transcripts of Claude Code are: a file for each session, and a folder with what belongs to it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import msgspec

from cortext.errors import UnsafePath
from cortext.io import durable, new_files
from cortext.tools.base import (
    Counts,
    Leftover,
    Transcript,
    Watch,
)
from cortext.tools.claude_code.adapter import ClaudeCode, folder_name
from cortext.tools.claude_code.messages import KNOWN, MESSAGE_TYPES, Record, decoder, image_in
from cortext.tools.claude_code.read import ClaudeReading
from cortext.tools.shared.folders import entries, is_uuid
from cortext.tools.shared.leftovers import unlisted_below
from cortext.tools.shared.lines import ForeignLines
from cortext.tools.shared.native import in_lines
from cortext.tools.shared.parts import ToolPart

_SUFFIX = ".jsonl"
# What Claude Code keeps beside the sessions of a project, and in the folder of a session that it has deleted.
_COMPANIONS = (
    *("*/agent-*.jsonl", "*/sessions-index.json", "*/bridge-pointer.json", "*/memory/", "*/tiny_memory/", "*/bagel/"),
    *("*/cloud-snapshots/", "*/connector-downloads/", "*/*/subagents/", "*/*/tool-results/", "*/*/session-memory/"),
    *("*/*/workflows/", "*/*/mcp-tasks/", "*/*/*.cast"),
)
_RECORDS_CHECKED = 64  # the first message comes well before that


class ClaudeStore(ToolPart[ClaudeCode]):
    """Finds, reads and copies the transcripts."""

    def transcripts(self, project: str | None = None) -> Iterator[Transcript]:
        """Yield every `<session>.jsonl` of every project folder. Files of subagents belong to their session.

        A file of another name that has a session in it (`2026-01-05-<session>.jsonl`) is a snapshot of that one.
        """
        if project is not None:
            real = os.path.realpath(project)
            yield from self._in_folder(os.path.join(self.tool.projects, folder_name(real)), real)
            return
        for folder in entries(self.tool.projects):
            if folder.is_dir():
                yield from self._in_folder(folder.path, "")

    def _in_folder(self, folder: str, project: str) -> Iterator[Transcript]:
        for entry in entries(folder):
            key = entry.name.removesuffix(_SUFFIX)
            if entry.is_symlink() and os.path.isfile(entry.path):
                continue  # a second name of another transcript; a dangling link is reported when it is read
            if key == entry.name:
                continue
            found = self._transcript(key, entry.path, project) if is_uuid(key) else self._snapshot(entry.path, project)
            if found is not None:
                yield found

    def _snapshot(self, path: str, project: str = "") -> Transcript | None:
        """Return the transcript in a file that is not named as Claude Code names them; None if it is none."""
        try:
            key = session_in(path)
        except (OSError, UnsafePath):
            return None
        if not is_uuid(key):
            return None
        name = os.path.basename(path).removesuffix(_SUFFIX)
        found = self._transcript(f"{key}@{name}", path, project)
        if found is not None:
            found.snapshot_of = key
        return found

    def _transcript(self, key: str, path: str, project: str) -> Transcript | None:
        """Return the transcript with its fingerprint, companion files included; None if it was just removed."""
        size = changed = 0
        try:
            for file in (path, *(companion for _, companion in companion_files(path))):
                status = os.stat(file, follow_symlinks=False)
                size, changed = size + status.st_size, max(changed, status.st_mtime_ns)
        except FileNotFoundError:
            return None
        return Transcript(tool=self.tool.name, key=key, path=path, project=project, size=size, changed=changed)

    def transcript_at(self, path: str) -> Transcript | None:
        """Return the transcript at any path, recognised by its records; None for the file of a subagent."""
        try:
            key = session_in(path)
        except (OSError, UnsafePath):
            return None
        return self._transcript(key, path, "") if key else None

    def leftovers(self, listed: Sequence[Transcript]) -> Iterator[Leftover]:
        """Yield the other files beside the sessions, without those that belong to one."""
        begun = {transcript.path.removesuffix(_SUFFIX) for transcript in listed}

        def belongs(path: str) -> bool:  # whatever is in the folder of a session is kept with it
            steps = os.path.relpath(path, self.tool.projects).split(os.sep)
            return len(steps) > 2 and os.path.join(self.tool.projects, *steps[:2]) in begun

        return unlisted_below(self.tool.projects, listed, self.tool.title, _COMPANIONS, belongs)

    def watched(self) -> Watch:
        """Return the folder of all projects."""
        return Watch(folders=[self.tool.projects])

    def changed(self, path: str) -> list[Transcript]:
        """Return the transcript in this file, or the one that this companion file belongs to."""
        folder, _, rest = os.path.relpath(path, self.tool.projects).partition(os.sep)
        key = rest.partition(os.sep)[0].removesuffix(_SUFFIX)
        if folder == os.pardir:
            return []
        if not is_uuid(key):
            snapshot = self._snapshot(path) if path.endswith(_SUFFIX) and os.sep not in rest else None
            return [snapshot] if snapshot is not None else []
        found = self._transcript(key, os.path.join(self.tool.projects, folder, key + _SUFFIX), "")
        return [found] if found is not None else []

    def read(self, transcript: Transcript, cursor: dict[str, Any] | None = None) -> ClaudeReading:
        """Return the messages; with a cursor, only those added since."""
        if transcript.snapshot_of:
            transcript = msgspec.structs.replace(transcript, key=transcript.snapshot_of)
        subagents = [file for file in companion_files(transcript.path) if file[0].endswith(_SUFFIX)]
        return ClaudeReading(transcript, subagents, cursor)

    def copy(self, transcript: Transcript, target: str, later: new_files.Later | None = None) -> None:
        """Copy the file byte for byte, and its companion files to a folder next to the copy."""
        new_files.ensure_folder(os.path.dirname(target), later)
        new_files.mirror_file(transcript.path, target, later)
        mirror_companions(transcript.path, target, later)

    def images(self, transcript: Transcript, refs: AbstractSet[str]) -> dict[str, bytes]:
        """Return the bytes of those of these images that are in the transcript."""
        return in_lines(transcript, refs, image_in)

    def path_of(self, key: str) -> str | None:
        """Return the path of this session in the tool's store, in any project; None if it has none."""
        for folder in entries(self.tool.projects):
            path = os.path.join(folder.path, key + _SUFFIX)
            if os.path.lexists(path):
                return path
        return None

    def new_path(self, key: str, project: str) -> str:
        return os.path.join(self.tool.projects, folder_name(os.path.realpath(project)), key + _SUFFIX)


def companion_files(path: str) -> list[tuple[str, str]]:
    """Return the relative name and path of each file next to a transcript: of subagents and long tool results."""
    root = _companion_folder(path)
    found: list[tuple[str, str]] = []
    waiting = [root]
    while waiting:
        folder = waiting.pop()
        for entry in entries(folder):
            if entry.is_dir(follow_symlinks=False):
                waiting.append(entry.path)
            elif entry.is_file(follow_symlinks=False):
                found.append((os.path.relpath(entry.path, root), entry.path))
    return sorted(found)


def _companion_folder(path: str) -> str:
    return path.removesuffix(_SUFFIX) if path.endswith(_SUFFIX) else f"{path}.files"


def mirror_companions(source: str, target: str, later: new_files.Later | None = None) -> None:
    for name, path in companion_files(source):
        copy = os.path.join(_companion_folder(target), name)
        new_files.ensure_folder(os.path.dirname(copy), later)
        new_files.mirror_file(path, copy, later)


def session_in(path: str) -> str:
    """Return the id of the session in a file, from its first records; empty if it is not a transcript."""
    name = os.path.basename(path).removesuffix(_SUFFIX)
    descriptor = durable.open_file(path, os.O_RDONLY)
    try:
        head = os.pread(descriptor, 64, 0)
    finally:
        os.close(descriptor)
    if not re.match(rb'[\s\0]*\{\s*"', head) or name.startswith("agent-"):
        return ""
    session = ""
    lines = ForeignLines(path, 0, Counts())
    for line, _ in zip(lines, range(_RECORDS_CHECKED), strict=False):
        for record in lines.decode(line, decoder, Record):
            session = session or record.sessionId or ""
            if record.type in MESSAGE_TYPES:
                if record.isSidechain or (record.message is not None and record.message.content is None):
                    return ""  # of a subagent, or of Qwen Code, whose messages have `parts` instead
                return name if is_uuid(name) else record.sessionId or session
            if record.type not in KNOWN:
                session = ""
    return name if session and is_uuid(name) else session
