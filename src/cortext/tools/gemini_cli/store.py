"""Where Gemini CLI keeps its conversations, and which files belong to one.

`~/.gemini/tmp/<slug>/chats/session-<minute>-<first 8 of the id>.jsonl`, one slug a project; the file `.project_root`
beside `chats` says which project. A resumed session may have a second file under the same id that holds no message
(`GeminiStore.files` passes over it), and its side agents lie in `chats/<session id>/`.
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator, Mapping

import msgspec

from cortext.io import files as fsio
from cortext.tools.base import Transcript

TOOL = "gemini"
_NAME = re.compile(r"session-.+-([0-9A-Za-z]{8})\.jsonl?")
_SESSION_ID = re.compile(rb'"sessionId"\s*:\s*"([^"\\]+)"')
_PROJECT_HASH = re.compile(rb'"projectHash"\s*:\s*"([0-9a-f]*)"')
_KIND = re.compile(rb'"kind"\s*:\s*"subagent"')
_HEAD = 4096
_BLOCK = 1 << 20
_HASH_LENGTH = 64


class Head(msgspec.Struct):
    """What the first bytes of a transcript tell."""

    key: str
    project_hash: str
    side_agent: bool


class GeminiStore:
    """The program's own folder in a home."""

    def __init__(self, home: str, environ: Mapping[str, str]) -> None:
        self.folder = os.path.join(environ.get("GEMINI_CLI_HOME") or home, ".gemini")
        self.chats_root = os.path.join(self.folder, "tmp")

    # ── projects ─────────────────────────────────────────────────────────────────────────────────────

    def projects(self) -> dict[str, str]:
        """The program's own list: project folder to slug."""
        try:
            raw = fsio.read_file(os.path.join(self.folder, "projects.json"))
            known = msgspec.json.decode(raw, type=dict[str, dict[str, str]])
        except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return {}
        return known.get("projects", {})

    def project_of(self, slug: str, known: Mapping[str, str]) -> str:
        """Which project a slug stands for: as its marker says, else the list; older slugs are a hash of the path."""
        try:
            return fsio.read_text(os.path.join(self.chats_root, slug, ".project_root"))[:_HEAD].strip()
        except (OSError, UnicodeDecodeError):
            pass
        return next((path for path, name in known.items() if slug in (name, project_hash(path))), "")

    def slug_for(self, project: str) -> str:
        """The slug of a project, claimed as the program does it where there is none yet.

        The marker alone is enough: the program finds it and puts it into its own list, which we never write.
        """
        known = self.projects()
        slug = known.get(project, "")
        if slug and self.project_of(slug, known) in ("", project):
            self._mark(slug, project)
            return slug
        for candidate in self._slugs():
            if self._marked(candidate) == project:
                return candidate
        base = re.sub(r"-+", "-", re.sub(r"[^a-z0-9]", "-", os.path.basename(project).lower())).strip("-") or "project"
        taken = set(known.values())
        number = 0
        while True:
            slug = f"{base}-{number}" if number else base
            number += 1
            if slug not in taken and self._marked(slug) in ("", project):
                self._mark(slug, project)
                return slug

    def _slugs(self) -> list[str]:
        try:
            return sorted(os.listdir(self.chats_root))
        except (FileNotFoundError, NotADirectoryError):
            return []

    def _marked(self, slug: str) -> str:
        """The project that holds a slug, by its markers; the program looks into both of these folders."""
        for folder in (self.chats_root, os.path.join(self.folder, "history")):
            try:
                return fsio.read_text(os.path.join(folder, slug, ".project_root")).strip()
            except (OSError, UnicodeDecodeError):
                continue
        return ""

    def _mark(self, slug: str, project: str) -> None:
        path = os.path.join(self.chats_root, slug, ".project_root")
        if not os.path.exists(path):
            fsio.ensure_folder(os.path.dirname(path))
            fsio.replace_file(path, [project.encode("utf-8")])

    # ── transcripts ──────────────────────────────────────────────────────────────────────────────────

    def transcripts(self, project: str | None = None) -> Iterator[Transcript]:
        """One transcript a session."""
        given: set[str] = set()
        for folder, held_in in self._chats(project):
            for path, head in self.files(folder):
                if head.key not in given:
                    given.add(head.key)
                    yield self.transcript(path, head, held_in)

    def path_of(self, project: str, key: str) -> str:
        """The file of a session of this project; empty where there is none."""
        for folder, _ in self._chats(project):
            for path, head in self.files(folder, key[:8] or "-"):
                if head.key == key:
                    return path
        return ""

    def _chats(self, project: str | None) -> Iterator[tuple[str, str]]:
        """The `chats` folders with the project of each."""
        known = self.projects()
        wanted = os.path.realpath(project) if project is not None else None
        # When the program gave a project its short name it copied the older folder, which stays: newer ones first.
        for slug in sorted(self._slugs(), key=lambda slug: len(slug) == _HASH_LENGTH):
            held_in = self.project_of(slug, known)
            if wanted is None or held_in in (wanted, project) or slug == project_hash(wanted):
                yield os.path.join(self.chats_root, slug, "chats"), held_in or (wanted or "")

    def files(self, folder: str, short_id: str = "") -> Iterator[tuple[str, Head]]:
        """The file of each session in a `chats` folder (or of those whose id begins so)."""
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
                head = look_at(path) or look_by_name(path)
                if head is not None:
                    sessions.setdefault(head.key, []).append((path, head))
            for found in sessions.values():
                yield found[0] if len(found) == 1 else max(found, key=_worth)

    def transcript(self, path: str, head: Head, project: str) -> Transcript:
        """A transcript with its cheap signs of change, those of its side agents included."""
        size = changed = 0
        for file in (path, *self.agents(path, head.key)):
            try:
                status = os.stat(file)
            except OSError:
                continue
            size += status.st_size
            changed = max(changed, status.st_mtime_ns)
        return Transcript(tool=TOOL, key=head.key, path=path, project=project, size=size, changed=changed)

    def agents(self, path: str, key: str) -> list[str]:
        """The files of a session's side agents."""
        folder = self.agents_folder(path, key)
        try:
            names = sorted(os.listdir(folder))
        except (FileNotFoundError, NotADirectoryError):
            return []
        return [os.path.join(folder, name) for name in names if name.endswith((".jsonl", ".json"))]

    @staticmethod
    def agents_folder(path: str, key: str) -> str:
        """Where they lie: as the program does it in its own folder, beside a copy that lies somewhere else."""
        folder = os.path.dirname(path)
        in_store = os.path.basename(folder) == "chats" and os.sep not in key and key not in (".", "..")
        return os.path.join(folder, key) if in_store else f"{path}.files"

    def transcript_at(self, path: str) -> Transcript | None:
        """A transcript by its file; where that is the empty second file of a session, the one with its messages."""
        head = look_at(path) or look_by_name(path)
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
            if os.path.dirname(slug_folder) == self.chats_root:
                project = self.project_of(os.path.basename(slug_folder), self.projects())
        if not project:
            project = next((known for known in self.projects() if project_hash(known) == head.project_hash), "")
        return self.transcript(path, head, project)


def project_hash(project: str) -> str:
    """How the program names a project inside a transcript."""
    return hashlib.sha256(project.encode("utf-8", "surrogateescape")).hexdigest()


def look_at(path: str) -> Head | None:
    """What the first bytes of a file tell; None where it is not a transcript of this program."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return None
        with open(path, "rb", buffering=0, opener=fsio.plain_file) as file:
            begin = file.read(_HEAD)
    except OSError:
        return None
    start = begin.lstrip(b" \t\r\n")
    key, mark = _SESSION_ID.search(start), _PROJECT_HASH.search(start)
    # The session's own data stand first; what has these words only somewhere inside is another program's.
    if not start.startswith(b"{") or key is None or mark is None or key.start() > 200 or mark.start() > 500:
        return None
    first = start.partition(b"\n")[0]
    return Head(key[1].decode("utf-8", "replace"), mark[1].decode("ascii"), _KIND.search(first) is not None)


def look_by_name(path: str) -> Head | None:
    """The same for a file that lies and is called as one, and whose first line is damaged or not the first any more."""
    folder, name = os.path.split(os.path.abspath(path))
    if os.path.basename(folder) != "chats" or not _NAME.fullmatch(name):
        return None
    by_name = Head(name.partition(".")[0], "", False)
    try:
        if not has_messages(path) and not os.stat(path).st_size:
            return None
        with open(path, "rb", opener=fsio.plain_file) as file:
            for line in file.read(_BLOCK).split(b"\n"):
                key, mark = _SESSION_ID.match(line, 1), _PROJECT_HASH.search(line)
                if key is not None and mark is not None:
                    return Head(key[1].decode("utf-8", "replace"), mark[1].decode("ascii"), bool(_KIND.search(line)))
    except FileNotFoundError:
        return None
    except OSError:
        return by_name  # whoever reads it is told what is wrong with it
    return by_name


def _worth(found: tuple[str, Head]) -> tuple[bool, bool, int]:
    """Which of several files of one session to take: one with messages, the newer form, the newest."""
    path = found[0]
    try:
        return has_messages(path), path.endswith(".jsonl"), os.stat(path).st_mtime_ns
    except OSError:
        return False, False, 0


def has_messages(path: str) -> bool:
    """Whether a file holds a message at all: a stub has only the session's data and its first context."""
    with open(path, "rb", opener=fsio.plain_file) as file:
        before = b"\n"
        while block := file.read(_BLOCK):
            if b'\n{"id":' in before + block or b'\n{"id": ' in before + block or b'\n      "id":' in before + block:
                return True
            before = block[-16:]
    return False
