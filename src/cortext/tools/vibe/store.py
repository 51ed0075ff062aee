"""Where Mistral Vibe keeps its sessions, and our copies of them.

A session is known by the id under which it was first stored: one that Vibe imported from a Vibe 2 folder keeps the id
of that folder, and `vibe --resume` accepts it for both.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Protocol, TypeVar

import msgspec

from cortext.errors import CortextError, DamagedData
from cortext.io import batch as newfiles
from cortext.io import files as fsio
from cortext.io.inside import inside
from cortext.tools.base import Transcript
from cortext.tools.vibe.records import CURRENT, LINES, META, Current, Manifest, Meta, Runtime

TOOL = "vibe"
_LARGEST = 1 << 31
_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_STATES = ("manifest", "checkpoint", "projection-state", "runtime-state")
_VIBE_2 = "session_"
_OLD = "vibe2/"  # where a copy holds the Vibe 2 session that a session was imported from
_ERRORS = (OSError, CortextError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
T = TypeVar("T")


def is_key(text: str) -> bool:
    """Whether a text is a session id."""
    return _UUID.fullmatch(text) is not None


class Files(Protocol):
    """The files of one session."""

    def read(self, name: str) -> bytes:
        """Return the content of a file; raise OSError if it does not exist."""


class Folder:
    """The files of a session in Vibe's store."""

    def __init__(self, path: str) -> None:
        self.path = path

    def read(self, name: str) -> bytes:
        return fsio.read_file(inside(self.path, name), _LARGEST)


class _CopiedFile(msgspec.Struct, omit_defaults=True):
    """A file in a copy; `data` instead of `text` if it is not UTF-8."""

    name: str
    text: str = ""
    data: bytes = b""


class _CopyHead(msgspec.Struct):
    """The first line of a copy: which session it is, in which folder, and the fingerprint of what was copied."""

    cortext: str = ""
    folder: str = ""
    old_folder: str = ""
    size: int = 0
    changed: int = 0


class Copied:
    """The files of a session in a copy of ours; `below` selects those of a folder."""

    def __init__(self, contents: dict[str, bytes], below: str = "") -> None:
        self._contents, self._below = contents, below

    def read(self, name: str) -> bytes:
        try:
            return self._contents[self._below + name]
        except KeyError:
            raise FileNotFoundError(name) from None


class Session:
    """A session of Vibe 3 (`files` has a `CURRENT`) or of Vibe 2; `old` is the Vibe 2 session that Vibe 3 imported."""

    def __init__(self, files: Files, *, is_unified: bool, old: Files | None = None) -> None:
        self.files, self.is_unified, self.old = files, is_unified, old
        self.meta = msgspec.json.decode(files.read(META), type=Meta)
        self.generation = ""
        self.manifest, self.runtime = Manifest(), Runtime()
        self.id = self.meta.session_id
        if is_unified:
            current = msgspec.json.decode(files.read(CURRENT), type=Current)
            self.generation, self.id = f"generations/{current.generation}", current.session_id
            self.manifest = msgspec.json.decode(files.read(f"{self.generation}/manifest.json"), type=Manifest)
            self.runtime = msgspec.json.decode(files.read(f"{self.generation}/runtime-state.json"), type=Runtime)
        self.key = self.runtime.imported_from or self.id

    def names(self) -> Iterator[str]:
        """Yield the files that belong to it; the journal may not exist yet."""
        if not self.is_unified:
            yield from (META, LINES)
            return
        manifest = self.manifest
        chunks = (*manifest.checkpoint.names, *manifest.projection_state.names, *manifest.runtime_state.names)
        yield from (CURRENT, META, *(f"{self.generation}/{state}.json" for state in _STATES), *dict.fromkeys(chunks))
        if manifest.recovery_journal_segment.path:
            yield manifest.recovery_journal_segment.path


class VibeStore:
    """The sessions below `<vibe home>/logs/session`."""

    def __init__(self, home: str) -> None:
        self.root = os.path.join(home, "logs", "session")
        self.unified = os.path.join(self.root, "unified")

    # ── finding ──────────────────────────────────────────────────────────────────────────────────────

    def transcripts(self) -> Iterator[Transcript]:
        """Yield every session once: one that Vibe 3 imported is not listed again as the folder it was made from."""
        found: dict[str, Transcript] = {}
        for name in _listed(self.unified):
            transcript = self.transcript_at(os.path.join(self.unified, name, CURRENT)) if is_key(name) else None
            if transcript is not None:
                other = found.get(transcript.key)
                found[transcript.key] = max(transcript, other, key=_changed) if other else transcript
        yield from found.values()
        for name in _listed(self.root):
            if name.startswith(_VIBE_2):
                transcript = self.transcript_at(os.path.join(self.root, name, LINES))
                if transcript is not None and transcript.key not in found:
                    yield transcript

    def transcript_at(self, path: str) -> Transcript | None:
        """Return the transcript in this file: `CURRENT`, `messages.jsonl`, or a copy of ours."""
        try:
            session = self.session_at(path)
            if session is None or not is_key(session.key) or session.runtime.identity.depth:
                return None
            size, changed = _fingerprint(path)
        except _ERRORS:
            return None
        return Transcript(
            tool=TOOL, key=session.key, path=path, project=session.meta.project, size=size, changed=changed
        )

    def session_at(self, path: str) -> Session | None:
        """Return the session in this file; None if the file is something else. Raise an error if it is incomplete."""
        name, folder = os.path.basename(path), os.path.dirname(path)
        if name == LINES and os.path.exists(os.path.join(folder, META)):
            return Session(Folder(folder), is_unified=False)
        if name == CURRENT:
            session = Session(Folder(folder), is_unified=True)
            if old := session.runtime.imported_from:
                session.old = self._vibe_2(old, os.path.dirname(os.path.dirname(folder)))
            return session
        head, contents = _copy(path)
        if head is None:
            return None
        old_files = Copied(contents, _OLD) if head.old_folder else None
        return Session(Copied(contents), is_unified=CURRENT in contents, old=old_files)

    def _vibe_2(self, key: str, root: str) -> Folder | None:
        """Return the Vibe 2 folder of this id."""
        for name in _listed(root) if is_key(key) else ():
            if name.startswith(_VIBE_2) and name.endswith(key[:8]):
                folder = Folder(os.path.join(root, name))
                try:
                    if msgspec.json.decode(folder.read(META), type=Meta).session_id == key:
                        return folder
                except _ERRORS:
                    continue
        return None

    def has(self, key: str) -> bool:
        """Whether there is a session with this id, or a folder that begins like it: Vibe accepts the beginning."""
        if any(name.startswith(_VIBE_2) and name.endswith(key[:8]) for name in _listed(self.root)):
            return True
        return os.path.lexists(os.path.join(self.unified, key)) or any(item.key == key for item in self.transcripts())

    # ── copies ───────────────────────────────────────────────────────────────────────────────────────

    def copy(self, transcript: Transcript, target: str, later: newfiles.Later | None) -> None:
        """Write a session into one file, unless the file is up to date."""
        session = self.session_at(transcript.path)
        if session is None:
            raise DamagedData(f"{transcript.path} is not a session of Mistral Vibe", kept="an earlier copy, if any")
        folder, old = session.files, session.old
        head = _CopyHead(
            cortext=TOOL,
            folder=os.path.basename(folder.path) if isinstance(folder, Folder) else "",
            old_folder=os.path.basename(old.path) if isinstance(old, Folder) else "",
            size=transcript.size,
            changed=transcript.changed,
        )
        if isinstance(folder, Copied):  # a copy of a copy
            newfiles.mirror_file(transcript.path, target, later)
        elif later is not None:
            newfiles.new_file(target, _copied_lines(session, head), later)
        elif not os.path.exists(target) or _copy(target)[0] != head:
            fsio.replace_file(target, _copied_lines(session, head))

    def put_back(self, copy: str) -> str:
        """Restore a copy file by file if Vibe has lost the session; return the session's key."""
        try:
            head, contents = _copy(copy)
            session = self.session_at(copy) if head is not None else None
        except _ERRORS:
            head = session = None
        if head is None or session is None or not is_key(session.key):
            raise DamagedData(f"{copy} is not a session of Mistral Vibe", kept="nothing was changed")
        if not any(item.key == session.key for item in self.transcripts()):
            target = os.path.join(self.unified if session.is_unified else self.root, head.folder)
            _restore(target, {name: data for name, data in contents.items() if not name.startswith(_OLD)})
        if head.old_folder:
            old = {name.removeprefix(_OLD): data for name, data in contents.items() if name.startswith(_OLD)}
            _restore(os.path.join(self.root, head.old_folder), old)
        return session.key


def _restore(folder: str, contents: dict[str, bytes]) -> None:
    """Write the files of a session, unless its folder exists."""
    if os.path.basename(folder) in ("", os.curdir, os.pardir) or os.path.lexists(folder):
        return
    fsio.ensure_folder(folder)
    try:
        for name, data in contents.items():
            path = inside(folder, name)
            fsio.ensure_folder(os.path.dirname(path))
            fsio.replace_file(path, [data])
    except BaseException:
        fsio.remove_tree(folder)
        raise


def _copied_lines(session: Session, head: _CopyHead) -> Iterator[bytes]:
    yield msgspec.json.encode(head) + b"\n"
    sources = [("", session.files, session.names())]
    if session.old is not None:
        sources.append((_OLD, session.old, iter((META, LINES))))
    for below, files, names in sources:
        for name in names:
            try:
                data = files.read(name)
            except OSError:  # not written yet
                continue
            try:
                file = _CopiedFile(below + name, text=data.decode("utf-8"))
            except UnicodeDecodeError:
                file = _CopiedFile(below + name, data=data)
            yield msgspec.json.encode(file) + b"\n"


def _copy(path: str) -> tuple[_CopyHead | None, dict[str, bytes]]:
    """Return the head and the files of a copy; None if this file is not one."""
    try:
        with open(path, "rb", opener=fsio.plain_file) as file:
            head = msgspec.json.decode(file.readline(1 << 16), type=_CopyHead)
            if head.cortext != TOOL:
                return None, {}
            lines = [msgspec.json.decode(line, type=_CopiedFile) for line in file]
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None, {}
    return head, {line.name: line.data or line.text.encode("utf-8") for line in lines}


def _fingerprint(path: str) -> tuple[int, int]:
    """Return the size and the latest change of the files that a new message changes."""
    folder, paths = os.path.dirname(path), [path]
    if os.path.basename(path) == CURRENT:
        journal = os.path.join(folder, "journal")
        paths += [os.path.join(folder, META), *(os.path.join(journal, name) for name in _listed(journal))]
    elif os.path.basename(path) == LINES:
        paths.append(os.path.join(folder, META))
    found = [os.stat(name) for name in paths]
    return sum(status.st_size for status in found), max(status.st_mtime_ns for status in found)


def _changed(transcript: Transcript) -> int:
    return transcript.changed


def _listed(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except (FileNotFoundError, NotADirectoryError):
        return []
