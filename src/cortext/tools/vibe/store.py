"""Where Mistral Vibe keeps its sessions, and which files belong to one.

A session is known by the id under which it was first stored: one that Vibe imported from a Vibe 2 folder keeps the id
of that folder, and `vibe --resume` accepts it for both.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from cortext.io import durable
from cortext.io.inside import inside
from cortext.tools.base import Leftover, Transcript, Watch
from cortext.tools.shared.bundle import BundleTool, Piece
from cortext.tools.shared.folders import is_uuid, listing, of_project, step_below
from cortext.tools.shared.leftovers import described, is_empty, unlisted_below
from cortext.tools.shared.parts import ToolPart
from cortext.tools.vibe.adapter import CURRENT, VIBE_2, Vibe
from cortext.tools.vibe.read import VibeReading
from cortext.tools.vibe.records import ERRORS, LINES, META, OLD, Contents, Current, Session, contents_of

_LARGEST = 1 << 31
_STATES = ("manifest", "checkpoint", "projection-state", "runtime-state")
_OTHERS = ("active", "plugins")  # folders beside the sessions in which Vibe keeps no conversation
# What Vibe keeps there, and the files of a session itself: whether they can be read is checked session by session.
_COMPANIONS = (
    *(f"{folder}/" for folder in _OTHERS),
    *(f"{VIBE_2}*/{name}" for name in (META, LINES, "attachments/", "agents/")),
    *(f"unified/*/{name}" for name in (CURRENT, META, "scheduled-loops.json", "attachments/", "tool-results/")),
    *("unified/*/chunks/*.json", "unified/*/journal/*.jsonl", "unified/*/generations/*/*.json"),
)


class VibeReader(BundleTool, ToolPart[Vibe]):
    """Finds and reads the sessions, and restores one from a copy."""

    name = Vibe.name

    def transcripts(self, project: str | None = None) -> Iterator[Transcript]:
        """Yield the sessions on this machine (of one project, if given), in no particular order."""
        return of_project(self._all(), project)

    def _all(self) -> Iterator[Transcript]:
        """Yield every session once: one that Vibe 3 imported is not listed again as the folder it was made from."""
        found: dict[str, Transcript] = {}
        for name in listing(self.tool.unified):
            transcript = self._session_at(self.tool.current(name)) if is_uuid(name) else None
            if transcript is not None:
                other = found.get(transcript.key)
                found[transcript.key] = max(transcript, other, key=_changed) if other else transcript
        yield from found.values()
        for folder in self.tool.vibe_2:
            transcript = self._session_at(os.path.join(folder, LINES))
            if transcript is not None and transcript.key not in found:
                yield transcript

    def transcript_at(self, path: str) -> Transcript | None:
        """Return the transcript in this file, which may be a copy of ours; None if it is none."""
        return self.copied_transcript(path) or self._session_at(path)

    def _session_at(self, path: str) -> Transcript | None:
        """Return the transcript in this `CURRENT` or `messages.jsonl`."""
        if os.path.basename(path) not in (CURRENT, LINES):
            return None
        try:
            session = Session(dict(_heads(path)))
            size, changed = _fingerprint(path)
        except ERRORS:
            return None
        if not is_uuid(session.key) or session.runtime.identity.depth:
            return None
        return Transcript(
            tool=self.name, key=session.key, path=path, project=session.meta.project, size=size, changed=changed
        )

    def leftovers(self, listed: Sequence[Transcript]) -> Iterator[Leftover]:
        """Yield what is no session that can be read, without those of subagents."""
        yield from unlisted_below(self.tool.root, listed, self.tool.title, _COMPANIONS)
        for name in listing(self.tool.root):
            folder = os.path.join(self.tool.root, name)
            is_usual = name.startswith((VIBE_2, ".")) or name in _OTHERS or folder == self.tool.unified
            if not is_usual and os.path.isdir(folder) and os.listdir(folder):
                yield Leftover(folder, f"a folder of a kind that is not known yet: it is {described(folder)}")
        paths, keys = {transcript.path for transcript in listed}, {transcript.key for transcript in listed}
        unified = [self.tool.current(name) for name in listing(self.tool.unified)]
        old = [os.path.join(folder, LINES) for folder in self.tool.vibe_2]
        for path in (*unified, *old):
            if path in paths or (is_empty(path) and is_empty(os.path.join(os.path.dirname(path), META))):
                continue
            try:
                session = Session(dict(_heads(path)))
                is_known = session.key in keys or session.runtime.identity.depth > 0
                why = "" if is_known or is_empty(path) else f"its session id is {session.key[:60]!r}, which is no UUID"
            except ERRORS as error:
                why = f"its metadata cannot be read: {error}"
            if why:
                yield Leftover(path, why)

    def watched(self) -> Watch:
        """Return the folder of all sessions."""
        return Watch(folders=[self.tool.root])

    def changed(self, path: str) -> list[Transcript]:
        """Return the session whose folder a file is in, unless it is one that Vibe 3 has imported."""
        if key := step_below(self.tool.unified, path):
            found = self._session_at(self.tool.current(key)) if is_uuid(key) else None
            return [found] if found is not None else []
        folder = os.path.join(self.tool.root, step_below(self.tool.root, path))
        return [found for found in self._all() if os.path.dirname(found.path) == folder]

    def has(self, key: str) -> bool:
        """Whether there is a session with this id, or a folder that begins like it: Vibe accepts the beginning."""
        if any(folder.endswith(key[:8]) for folder in self.tool.vibe_2):
            return True
        return os.path.lexists(os.path.join(self.tool.unified, key)) or any(item.key == key for item in self._all())

    # ── the files of a session ───────────────────────────────────────────────────────────────────────

    def pieces(self, transcript: Transcript) -> Iterator[Piece]:
        """Yield the files of a session: the folder that it was imported from, too."""
        path = transcript.path
        folder = os.path.dirname(path)
        yield Piece("folder", {"name": os.path.basename(folder)})
        yield from _file_pieces(folder, _names(Session(dict(_heads(path)))))
        if os.path.basename(path) == CURRENT:
            old = self._vibe_2(Session(dict(_heads(path))).runtime.imported_from)
            if old:
                yield Piece("old folder", {"name": os.path.basename(old)})
                yield from _file_pieces(old, (META, LINES), OLD)

    def reading(self, transcript: Transcript, pieces: Iterable[Piece]) -> VibeReading:
        """Return the reading of these files."""
        return VibeReading(transcript, pieces)

    def _vibe_2(self, key: str) -> str:
        """Return the Vibe 2 folder of this id; empty if there is none."""
        for folder in self.tool.vibe_2 if is_uuid(key) else ():
            if folder.endswith(key[:8]):
                try:
                    if Session(dict(_heads(os.path.join(folder, LINES)))).id == key:
                        return folder
                except ERRORS:
                    continue
        return ""

    def restore(self, pieces: Iterable[Piece]) -> None:
        """Write the folders of a session that do not exist."""
        pieces = list(pieces)
        names = {kind: str(values.get("name", "")) for kind, values in pieces if kind in ("folder", "old folder")}
        contents = contents_of(pieces)
        own = {name: data for name, data in contents.items() if not name.startswith(OLD)}
        old = {name.removeprefix(OLD): data for name, data in contents.items() if name.startswith(OLD)}
        _restore(self.tool.unified if CURRENT in own else self.tool.root, names.get("folder", ""), own)
        if old:
            _restore(self.tool.root, names.get("old folder", ""), old)


def model_of(pieces: Iterable[Piece]) -> str:
    """Return the name that the settings had for the model of a session; empty if it has none."""
    try:
        config = Session(contents_of(pieces)).meta.config
    except ERRORS:
        return ""
    return config.active_model or "" if config is not None else ""


def _restore(parent: str, name: str, contents: Contents) -> None:
    """Write the files of a session, unless its folder exists."""
    folder = os.path.join(parent, name)
    if not re.fullmatch(r"[\w-]+", name) or os.path.lexists(folder):
        return
    durable.ensure_folder(folder)
    try:
        for file, data in contents.items():
            path = inside(folder, file)
            durable.ensure_folder(os.path.dirname(path))
            durable.replace_file(path, [data])
    except BaseException:
        durable.remove_tree(folder)
        raise


def _heads(path: str) -> Iterator[tuple[str, bytes]]:
    """Yield the files that say which session this is, without its messages."""
    folder = os.path.dirname(path)
    yield META, _read(folder, META)
    if os.path.basename(path) == CURRENT:
        data = _read(folder, CURRENT)
        yield CURRENT, data
        generation = msgspec.json.decode(data, type=Current).generation
        for state in ("manifest", "runtime-state"):
            name = f"generations/{generation}/{state}.json"
            yield name, _read(folder, name)


def _names(session: Session) -> Iterator[str]:
    """Yield the files of a session."""
    if not session.is_unified:
        yield from (META, LINES)
        return
    manifest = session.manifest
    chunks = (*manifest.checkpoint.names, *manifest.projection_state.names, *manifest.runtime_state.names)
    yield from (CURRENT, META, *(f"{session.generation}/{state}.json" for state in _STATES), *dict.fromkeys(chunks))
    if manifest.recovery_journal_segment.path:
        yield manifest.recovery_journal_segment.path


def _file_pieces(folder: str, names: Iterable[str], below: str = "") -> Iterator[Piece]:
    for name in names:
        try:
            data = _read(folder, name)
        except OSError:  # not written yet, or already replaced by another generation
            continue
        try:
            yield Piece("file", {"name": below + name, "text": data.decode("utf-8")})
        except UnicodeDecodeError:
            yield Piece("file", {"name": below + name, "text": data.decode("latin-1"), "latin1": True})


def _read(folder: str, name: str) -> bytes:
    return durable.read_file(inside(folder, name), _LARGEST)


def _fingerprint(path: str) -> tuple[int, int]:
    """Return the size and the latest change of the files that a new message changes."""
    folder, paths = os.path.dirname(path), [path]
    if os.path.basename(path) == CURRENT:
        journal = os.path.join(folder, "journal")
        paths += [os.path.join(folder, META), *(os.path.join(journal, name) for name in listing(journal))]
    else:
        paths.append(os.path.join(folder, META))
    found = [os.stat(name) for name in paths]
    return sum(status.st_size for status in found), max(status.st_mtime_ns for status in found)


def _changed(transcript: Transcript) -> int:
    return transcript.changed
