"""Transcripts that are files: how they begin, of which project they are, and the folders named for a project."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterable, Iterator

from cortext.io import durable
from cortext.tools.base import Transcript, TranscriptSource


def is_uuid(text: str) -> bool:
    """Whether a text is a session id as these tools write it: a UUID with hyphens."""
    try:
        return len(text) == 36 and str(uuid.UUID(text)) == text.lower()
    except ValueError:
        return False


def dashed(project: str) -> str:
    """Return the path with `-` for all but letters and digits; a character beyond 16 bits counts as two."""
    return re.sub(r"[^A-Za-z0-9]", "-", "".join(map(chr, utf16_units(project))))


def utf16_units(text: str) -> list[int]:
    """Return the text as JavaScript counts it."""
    raw = text.encode("utf-16-le", "surrogatepass")
    return [int.from_bytes(raw[offset : offset + 2], "little") for offset in range(0, len(raw), 2)]


def entries(folder: str) -> list[os.DirEntry[str]]:
    """Return what is in a folder; nothing if it does not exist or cannot be read."""
    try:
        with os.scandir(folder) as found:
            return list(found)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return []


def up_to_top(folder: str) -> Iterator[str]:
    """Yield a folder and those above it, up to the top of its work tree; only itself if it is in none."""
    above = [folder]
    while not os.path.lexists(os.path.join(above[-1], ".git")):
        parent = os.path.dirname(above[-1])
        if parent == above[-1]:
            above = [folder]
            break
        above.append(parent)
    yield from above


def listing(folder: str) -> list[str]:
    """Return the names in a folder, sorted; none if there is no such folder."""
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []


def beginning(path: str, size: int) -> bytes:
    """Return the first bytes of a file; none if it does not exist, cannot be read or is no file."""
    try:
        with open(path, "rb", buffering=0, opener=durable.plain_file) as file:
            return file.read(size)
    except OSError:
        return b""


def of_project(
    found: Iterable[Transcript | None], project: str | None, *, resolve: bool = False
) -> Iterator[Transcript]:
    """Yield the transcripts that exist; if a project is given, only those whose folder is that one.

    `resolve` is for tools that record a folder as the user named it: links in it are followed, too.
    """
    folders = None if project is None else {project, os.path.realpath(project)}
    for each in found:
        if each is None:
            continue
        if folders is None or each.project in folders or (resolve and os.path.realpath(each.project or "/") in folders):
            yield each


def transcript_of(tool: str, key: str, path: str, project: str, status: os.stat_result) -> Transcript:
    """Return the transcript in one file, with its fingerprint."""
    size, changed = status.st_size, status.st_mtime_ns
    return Transcript(tool=tool, key=key, path=path, project=project, size=size, changed=changed)


def file_transcript(tool: str, key: str, path: str, project: str = "") -> Transcript | None:
    """Return the same; None if the file was just removed. A link is not followed."""
    try:
        return transcript_of(tool, key, path, project, os.stat(path, follow_symlinks=False))
    except FileNotFoundError:
        return None


def changed_below(tool: TranscriptSource, folder: str, path: str) -> list[Transcript]:
    """Return the transcript in a changed file, if the file is below the tool's own folder."""
    found = tool.transcript_at(path) if path.startswith(os.path.join(folder, "")) else None
    return [found] if found is not None else []


def step_below(folder: str, path: str) -> str:
    """Return the name of the folder in `folder` that a file is in; empty if it is in none."""
    steps = path.removeprefix(os.path.join(folder, "")).split(os.sep)
    return steps[0] if path.startswith(os.path.join(folder, "")) and len(steps) > 1 else ""
