"""Where Gemini CLI stores its sessions, and which files belong to one.

`~/.gemini/tmp/<slug>/chats/session-<minute>-<first 8 of the id>.jsonl`, one slug per project; the file `.project_root`
beside `chats` names the project. A resumed session may have a second file with the same id and no messages, a stub,
which `GeminiStore.files` skips. The transcripts of its side agents are in `chats/<session id>/`.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

import msgspec

from cortext.io import durable, new_files
from cortext.tools.base import Leftover, Transcript, Watch
from cortext.tools.gemini_cli.adapter import GeminiCli
from cortext.tools.gemini_cli.read import GeminiReading
from cortext.tools.gemini_cli.records import image_in
from cortext.tools.shared.folders import beginning, entries, listing
from cortext.tools.shared.leftovers import unlisted, unlisted_below
from cortext.tools.shared.native import in_lines
from cortext.tools.shared.parts import ToolPart

_NAME = re.compile(r"session-.+-([0-9A-Za-z]{8})\.jsonl?")
_STRAY = re.compile(r"session-.*\.json")  # how the name of one begins that is not in `chats`
_SESSION_ID = re.compile(rb'"sessionId"\s*:\s*"([^"\\]+)"')
_PROJECT_HASH = re.compile(rb'"projectHash"\s*:\s*"([0-9a-f]*)"')
_KIND = re.compile(rb'"kind"\s*:\s*"subagent"')
_HEAD = 4096
_BLOCK = 1 << 20
_HASH_LENGTH = 64


class Head(msgspec.Struct):
    """What the first bytes of a transcript contain."""

    key: str
    project_hash: str
    side_agent: bool


class GeminiStore(ToolPart[GeminiCli]):
    """Finds, reads and copies the sessions."""

    # ── projects ─────────────────────────────────────────────────────────────────────────────────────

    def projects(self) -> dict[str, str]:
        """Return Gemini CLI's own registry: project folder to slug."""
        try:
            raw = durable.read_file(os.path.join(self.tool.folder, "projects.json"))
            registry = msgspec.json.decode(raw, type=dict[str, dict[str, str]])
        except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return {}
        return registry.get("projects", {})

    def project_of(self, slug: str, registry: Mapping[str, str]) -> str:
        """Return the project of a slug, by its marker file or else the registry; older slugs are a hash of the path."""
        try:
            return durable.read_text(os.path.join(self.tool.chats_root, slug, ".project_root"))[:_HEAD].strip()
        except (OSError, UnicodeDecodeError):
            pass
        return next((path for path, name in registry.items() if slug in (name, project_hash(path))), "")

    def slug_for(self, project: str) -> str:
        """Return the slug of a project; claim one as Gemini CLI does if it has none yet.

        The marker file is enough: Gemini CLI finds it and adds it to its registry, which we never write.
        """
        registry = self.projects()
        slug = registry.get(project, "")
        if slug and self.project_of(slug, registry) in ("", project):
            self._write_marker(slug, project)
            return slug
        for candidate in listing(self.tool.chats_root):
            if self._marked_project(candidate) == project:
                return candidate
        base = re.sub(r"-+", "-", re.sub(r"[^a-z0-9]", "-", os.path.basename(project).lower())).strip("-") or "project"
        slugs = set(registry.values())
        number = 0
        while True:
            slug = f"{base}-{number}" if number else base
            number += 1
            if slug not in slugs and self._marked_project(slug) in ("", project):
                self._write_marker(slug, project)
                return slug

    def _marked_project(self, slug: str) -> str:
        """Return the project that owns a slug, by its marker file; Gemini CLI checks both of these folders."""
        for folder in (self.tool.chats_root, os.path.join(self.tool.folder, "history")):
            try:
                return durable.read_text(os.path.join(folder, slug, ".project_root")).strip()
            except (OSError, UnicodeDecodeError):
                continue
        return ""

    def _write_marker(self, slug: str, project: str) -> None:
        path = os.path.join(self.tool.chats_root, slug, ".project_root")
        if not os.path.exists(path):
            durable.ensure_folder(os.path.dirname(path))
            durable.replace_file(path, [project.encode("utf-8")])

    # ── transcripts ──────────────────────────────────────────────────────────────────────────────────

    def transcripts(self, project: str | None = None) -> Iterator[Transcript]:
        """Yield one transcript per session."""
        seen: set[str] = set()
        for folder, owner in self._chats(project):
            for path, head in self.files(folder):
                if head.key not in seen:
                    seen.add(head.key)
                    yield self.transcript(path, head, owner)

    def leftovers(self, listed: Iterable[Transcript]) -> Iterator[Leftover]:
        """Yield the files among the chats that are neither a session nor a second file of one."""
        listed = list(listed)
        keys = {transcript.key for transcript in listed}
        agents = {agent for transcript in listed for agent in self.agents(transcript.path, transcript.key)}

        def belongs(path: str) -> bool:
            head = read_head(path)
            return path in agents or (head is not None and (head.side_agent or (head.key in keys and is_chat(path))))

        def is_chat(path: str) -> bool:  # directly in a folder of chats, so that a second file of a session is expected
            return os.path.basename(os.path.dirname(path)) == "chats"

        for slug in listing(self.tool.chats_root):
            folder = os.path.join(self.tool.chats_root, slug)
            yield from unlisted_below(os.path.join(folder, "chats"), listed, self.tool.title, (), belongs)
            others = [other.path for other in entries(folder) if other.name != "chats"]
            others += [file.path for other in others for file in entries(other)]
            sessions = (path for path in sorted(others) if _STRAY.match(os.path.basename(path)))
            yield from unlisted((path for path in sessions if os.path.isfile(path)), listed, self.tool.title)

    def path_of(self, project: str, key: str) -> str:
        """Return the path of a session of this project; empty if there is none."""
        for folder, _ in self._chats(project):
            for path, head in self.files(folder, key[:8] or "-"):
                if head.key == key:
                    return path
        return ""

    def _chats(self, project: str | None) -> Iterator[tuple[str, str]]:
        """Yield the `chats` folders, each with its project."""
        registry = self.projects()
        real = os.path.realpath(project) if project is not None else None
        # When Gemini CLI introduced short slugs it copied the older folders and left them in place: newer ones first.
        for slug in sorted(listing(self.tool.chats_root), key=lambda slug: len(slug) == _HASH_LENGTH):
            owner = self.project_of(slug, registry)
            if real is None or owner in (real, project) or slug == project_hash(real):
                yield os.path.join(self.tool.chats_root, slug, "chats"), owner or (real or "")

    def files(self, folder: str, short_id: str = "") -> Iterator[tuple[str, Head]]:
        """Yield the file of each session in a `chats` folder, or of those whose id begins with `short_id`."""
        groups: dict[str, list[str]] = {}
        try:
            names = os.listdir(folder)
        except (FileNotFoundError, NotADirectoryError):
            return
        for name in names:
            match = _NAME.fullmatch(name)
            if match and short_id in ("", match[1]):
                groups.setdefault(match[1], []).append(os.path.join(folder, name))
        for paths in groups.values():
            sessions: dict[str, list[tuple[str, Head]]] = {}
            for path in paths:
                head = read_head(path) or head_by_path(path)
                if head is not None:
                    sessions.setdefault(head.key, []).append((path, head))
            for found in sessions.values():
                yield found[0] if len(found) == 1 else max(found, key=_preference)

    def transcript(self, path: str, head: Head, project: str) -> Transcript:
        """Return a transcript with its size and time of change, side agents included."""
        size = changed = 0
        for file in (path, *self.agents(path, head.key)):
            try:
                status = os.stat(file)
            except OSError:
                continue
            size += status.st_size
            changed = max(changed, status.st_mtime_ns)
        return Transcript(tool=self.tool.name, key=head.key, path=path, project=project, size=size, changed=changed)

    def agents(self, path: str, key: str) -> list[str]:
        """Return the paths of the transcripts of a session's side agents."""
        folder = self.agents_folder(path, key)
        try:
            names = sorted(os.listdir(folder))
        except (FileNotFoundError, NotADirectoryError):
            return []
        return [os.path.join(folder, name) for name in names if name.endswith((".jsonl", ".json"))]

    @staticmethod
    def agents_folder(path: str, key: str) -> str:
        """Return their folder: inside `chats` as Gemini CLI arranges it, or beside a copy that is kept elsewhere."""
        folder = os.path.dirname(path)
        in_store = os.path.basename(folder) == "chats" and os.sep not in key and key not in (".", "..")
        return os.path.join(folder, key) if in_store else f"{path}.files"

    def changed(self, path: str) -> list[Transcript]:
        """Return the transcript that a file below the root belongs to, as its own or as that of a side agent."""
        steps = os.path.relpath(path, self.tool.chats_root).split(os.sep)
        if len(steps) not in (3, 4) or steps[1] != "chats":
            return []
        if len(steps) == 3:
            found = self.transcript_at(path)
            return [found] if found is not None else []
        folder = os.path.join(self.tool.chats_root, *steps[:2])
        owner = self.project_of(steps[0], self.projects())
        return [self.transcript(file, head, owner) for file, head in self.files(folder, steps[2][:8])]

    def transcript_at(self, path: str) -> Transcript | None:
        """Return the transcript in a file; for the stub of a session, the one in its file with the messages."""
        head = read_head(path) or head_by_path(path)
        if head is None or head.side_agent:
            return None
        path = os.path.abspath(path)
        folder, name = os.path.split(path)
        project = ""
        if os.path.basename(folder) == "chats":
            match = _NAME.fullmatch(name)
            for candidate, found in self.files(folder, match[1] if match else "-"):
                if found.key == head.key:
                    path = candidate
            slug_folder = os.path.dirname(folder)
            if os.path.dirname(slug_folder) == self.tool.chats_root:
                project = self.project_of(os.path.basename(slug_folder), self.projects())
        if not project:
            project = next((each for each in self.projects() if project_hash(each) == head.project_hash), "")
        return self.transcript(path, head, project)

    def watched(self) -> Watch:
        """Return the folder of all projects."""
        return Watch(folders=[self.tool.chats_root])

    def read(self, transcript: Transcript, cursor: dict[str, Any] | None = None) -> GeminiReading:
        """Return a reading of the messages; with a cursor, only of those added since."""
        return GeminiReading(transcript, cursor, self.agents(transcript.path, transcript.key))

    def copy(self, transcript: Transcript, target: str, later: new_files.Later | None = None) -> None:
        """Copy the transcript unchanged, and the transcripts of its side agents beside it."""
        self.mirror(transcript.path, target, transcript.key, later)

    def images(self, transcript: Transcript, refs: AbstractSet[str]) -> dict[str, bytes]:
        """Return the bytes of those of these images that are in the transcript."""
        return in_lines(transcript, refs, image_in)

    def mirror(self, source: str, target: str, key: str, later: new_files.Later | None = None) -> None:
        """Copy a transcript and those of its side agents; of a copy that exists, only what is new."""
        new_files.ensure_folder(os.path.dirname(target), later)
        new_files.mirror_file(source, target, later)
        for path in self.agents(source, key):
            copy = os.path.join(self.agents_folder(target, key), os.path.basename(path))
            new_files.ensure_folder(os.path.dirname(copy), later)
            new_files.mirror_file(path, copy, later)


def project_hash(project: str) -> str:
    """Return the hash by which Gemini CLI identifies a project in a transcript."""
    return hashlib.sha256(project.encode("utf-8", "surrogateescape")).hexdigest()


def read_head(path: str) -> Head | None:
    """Return what the first bytes of a file contain; None if it is not a transcript of Gemini CLI."""
    start = beginning(path, _HEAD).lstrip(b" \t\r\n")
    key, hash_match = _SESSION_ID.search(start), _PROJECT_HASH.search(start)
    # The session's metadata comes first; a file with these fields further inside belongs to another program.
    if not start.startswith(b"{") or key is None or hash_match is None or key.start() > 200 or hash_match.start() > 500:
        return None
    first = start.partition(b"\n")[0]
    return Head(key[1].decode("utf-8", "replace"), hash_match[1].decode("ascii"), _KIND.search(first) is not None)


def head_by_path(path: str) -> Head | None:
    """Return the head of a file that is a transcript by its path, although its first line is damaged or displaced."""
    folder, name = os.path.split(os.path.abspath(path))
    if os.path.basename(folder) != "chats" or not _NAME.fullmatch(name):
        return None
    by_name = Head(name.partition(".")[0], "", False)
    try:
        if not has_messages(path) and not os.stat(path).st_size:
            return None
        with open(path, "rb", opener=durable.plain_file) as file:
            for line in file.read(_BLOCK).split(b"\n"):
                key, hash_match = _SESSION_ID.match(line, 1), _PROJECT_HASH.search(line)
                if key is not None and hash_match is not None:
                    return Head(
                        key[1].decode("utf-8", "replace"), hash_match[1].decode("ascii"), bool(_KIND.search(line))
                    )
    except FileNotFoundError:
        return None
    except OSError:
        return by_name  # reading it reports the error
    return by_name


def _preference(found: tuple[str, Head]) -> tuple[bool, bool, int]:
    """Sort key for several files of one session: prefer one with messages, the newer format, the newest."""
    path = found[0]
    try:
        return has_messages(path), path.endswith(".jsonl"), os.stat(path).st_mtime_ns
    except OSError:
        return False, False, 0


def has_messages(path: str) -> bool:
    """Whether a file contains any message: a stub has only the session's metadata and the initial context."""
    with open(path, "rb", opener=durable.plain_file) as file:
        before = b"\n"
        while block := file.read(_BLOCK):
            if b'\n{"id":' in before + block or b'\n{"id": ' in before + block or b'\n      "id":' in before + block:
                return True
            before = block[-16:]
    return False
