"""What readings have in common: of simple formats, where everything is read every time; of files with a record in each
line; and of those whose records form a tree. Both are read as a stream, from where the last reading ended. No record
is fatal.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import msgspec

from cortext.errors import CortextError
from cortext.io import new_files
from cortext.model.message import ASSISTANT, BEGINNING, Message, is_empty_message
from cortext.tools.base import About, Counts, Transcript, TranscriptReading
from cortext.tools.shared.building import MessageBuilder
from cortext.tools.shared.folders import listing, of_project, transcript_of
from cortext.tools.shared.lines import (
    NOT_UNDERSTOOD,
    RECORD_ERRORS,
    WITHOUT_CONTENT,
    ForeignLines,
    fingerprint,
    note,
    place,
    place_named,
    usable,
)
from cortext.tools.shared.native import RunMark
from cortext.tools.shared.program import LocalTool

T = TypeVar("T")


class WholeReading:
    """A reading without a cursor. A subclass yields the messages."""

    is_whole = True  # whatever cursor it was given

    def __init__(self, transcript: Transcript) -> None:
        self.transcript = transcript
        self.about = About(project=transcript.project)
        self.counts = Counts()
        self.cursor: dict[str, Any] | None = None
        self.builder = MessageBuilder(self.about, self.counts)

    def __iter__(self) -> Iterator[Message]:
        raise NotImplementedError

    def each(self, records: Iterable[T], messages_of: Callable[[T], Iterable[Message]]) -> Iterator[Message]:
        """Yield the messages of all records; one with an unexpected structure is counted, and has no message."""
        for number, record in enumerate(records):
            try:
                yield from list(messages_of(record))
            except RECORD_ERRORS:
                self.damaged(NOT_UNDERSTOOD, f"record {number}")

    def damaged(self, reason: str, where: str) -> None:
        """Count a damaged record."""
        note(self.counts.damaged, reason)
        place_named(self.counts, f"{self.transcript.path}: {where}")


# ── a file with a record in each line ──────────────────────────────────────────────────────────────


R = TypeVar("R")


class LineReading(Generic[R]):
    """The messages of a file, from where the last reading ended. A subclass says which messages a record contains."""

    record: type[R]  # every field with a default

    def __init__(self, transcript: Transcript, cursor: dict[str, Any] | None = None) -> None:
        self.transcript = transcript
        self.about = About(project=transcript.project)
        self.counts = Counts()
        self.cursor: dict[str, Any] | None = None
        self._start = (usable(cursor, transcript.path) or {"offset": 0})["offset"]

    def messages(self, record: R) -> Iterable[Message]:
        """Return the messages of a record; note what it says about the conversation, or why it contains none."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[Message]:
        lines, decoder = ForeignLines(self.transcript.path, self._start, self.counts), msgspec.json.Decoder(self.record)
        for line in lines:
            for record in lines.decode(line, decoder, self.record):
                yield from self.messages(record)
        self.cursor = {"offset": lines.end, "seen": fingerprint(self.transcript.path, lines.end)}


class LineTool(LocalTool, Generic[R]):
    """A tool that keeps each conversation in such a file, all in one folder; the first record says which one it is."""

    name: str
    folder: str
    reading: Callable[[Transcript, dict[str, Any] | None], TranscriptReading]
    record: type[R]

    def identity(self, first: R) -> tuple[str, str]:
        """Return the key and the project of the conversation that begins with this record; no key if none does."""
        raise NotImplementedError

    def transcripts(self, project: str | None = None) -> Iterator[Transcript]:
        """Yield every conversation, or those of one project."""
        paths = (os.path.join(self.folder, name) for name in listing(self.folder))
        return of_project(map(self.transcript_at, paths), project)

    def transcript_at(self, path: str) -> Transcript | None:
        """Return the conversation in this file, which may be a copy in another folder."""
        try:
            lines = ForeignLines(path, 0, Counts())
            first = lines.decode(next(iter(lines), b""), msgspec.json.Decoder(self.record), self.record)
            status = os.stat(path)
        except (OSError, CortextError):  # a folder, a link, or no longer there
            return None
        key, project = self.identity(first[0]) if first else ("", "")
        return transcript_of(self.name, key, path, project, status) if key else None

    def read(self, transcript: Transcript, cursor: dict[str, Any] | None = None) -> TranscriptReading:
        """Return the messages; with a cursor, only those that were added since."""
        return self.reading(transcript, cursor)

    def copy(self, transcript: Transcript, target: str, later: new_files.Later | None = None) -> None:
        """Copy the file unchanged, because the tool may delete its own."""
        new_files.mirror_file(transcript.path, target, later)


# ── trees ──────────────────────────────────────────────────────────────────────────────────────────


_KEPT_OWNERS = 8
_KEPT_CALLS = 64
_ABOUT = ("title", "model", "project", "created_at", "command", "summary", "tools")


class TreeReading(Generic[R]):
    """The messages of a transcript. A subclass says what a record links to and which messages it contains.

    The cursor contains the offset reached, a fingerprint of the file up to there, and what the next reading needs: the
    newest owners, the calls without a result, and what the transcript says about itself.
    """

    decoder: msgspec.json.Decoder[R]
    record_type: type[R]

    def __init__(self, transcript: Transcript, cursor: dict[str, Any] | None = None) -> None:
        self.about = About(project=transcript.project)
        self.counts = Counts()
        self.cursor: dict[str, Any] | None = None
        self.transcript = transcript
        self.calls: dict[str, str] = {}  # the tool names of the calls without a result yet, by call id
        self._since = usable(cursor, transcript.path)
        self._owners: dict[str, str] = {}
        self._last = ""  # the id of the newest message that is not an aside
        self._has_all_owners = True

    def link(self, record: R) -> tuple[str, str | None]:
        """Return the id of a record and that of its parent: None if it is a root, both empty if it has no place."""
        raise NotImplementedError

    def messages(self, record: R, line: bytes) -> list[Message]:
        """Return the messages of a record; note what it says about the conversation, or why it contains none."""
        raise NotImplementedError

    def restored(self, mark: RunMark, literal: Message) -> list[Message]:
        """Return the messages that a record of ours was made from; the model that answered last is that of them all."""
        found = mark.all_restored(literal, self.counts.damaged)
        for message in found:
            if message.role == ASSISTANT and message.model:
                self.about.model = message.model
        return found

    def __iter__(self) -> Iterator[Message]:
        start = self._restore()
        lines = ForeignLines(self.transcript.path, start, self.counts)
        yield from self._read(lines)
        self.cursor = self._new_cursor(lines.end)

    def _read(self, lines: ForeignLines, stop: int | None = None) -> Iterator[Message]:
        decode = self.decoder.decode
        for line in lines:
            if stop is not None and lines.end > stop:
                return
            try:
                yield from self._checked(decode(line), line, lines)
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                for record in lines.decode(line, self.decoder, self.record_type):
                    yield from self._checked(record, line, lines)

    def _checked(self, record: R, line: bytes, lines: ForeignLines) -> Sequence[Message]:
        """Return the messages of one record; a malformed one is counted as damaged."""
        try:
            return self._placed(record, line)
        except RECORD_ERRORS:
            note(self.counts.damaged, NOT_UNDERSTOOD)
            place(self.counts, self.transcript.path, lines.end)
            return ()

    # ── the tree ─────────────────────────────────────────────────────────────────────────────────────

    def _placed(self, record: R, line: bytes) -> list[Message]:
        """Return the messages of a record; the first gets a parent if it does not follow the message before."""
        identity, parent = self.link(record)
        if identity and identity in self._owners:
            note(self.counts.skipped, "repeated")
            return []
        messages = self.messages(record, line)
        if any(map(is_empty_message, messages)):
            messages = [message for message in messages if not is_empty_message(message)]
            note(self.counts.skipped, WITHOUT_CONTENT)
        owner = self._owner(parent)
        spoken = [message for message in messages if not message.aside] if messages else messages
        if spoken:
            if owner != self._last:
                spoken[0].parent = owner or BEGINNING
            owner = self._last = spoken[-1].id
        if identity:
            self._owners[identity] = owner
        return messages

    def _owner(self, parent: str | None) -> str:
        if parent is None:
            return ""
        if parent and parent not in self._owners and not self._has_all_owners:
            self._read_owners()
        return self._owners.get(parent, self._last)

    def _read_owners(self) -> None:
        """Find the owners of all records before the cursor, which contains only the newest."""
        earlier = type(self)(self.transcript)
        since = self._since or {}
        for _ in earlier._read(ForeignLines(self.transcript.path, 0, Counts()), since["offset"]):
            pass
        self._owners = earlier._owners | self._owners
        self._has_all_owners = True

    # ── the cursor ───────────────────────────────────────────────────────────────────────────────────

    def _restore(self) -> int:
        """Continue where the reading that made the cursor ended; return that offset."""
        since = self._since
        if since is None:
            return 0
        self._has_all_owners = False
        self._owners = dict(since["owners"])
        self._last = str(since["last"])
        self.calls = dict(since["calls"])
        for name, value in since["about"].items():
            setattr(self.about, name, value)
        return int(since["offset"])

    def _new_cursor(self, offset: int) -> dict[str, Any]:
        newest = reversed(self._owners)
        kept = [name for name, _ in zip(newest, range(_KEPT_OWNERS), strict=False)]
        about = {name: value for name in _ABOUT if (value := getattr(self.about, name))}
        return {
            "offset": offset,
            "seen": fingerprint(self.transcript.path, offset),
            "owners": {name: self._owners[name] for name in reversed(kept)},
            "last": self._last,
            "calls": dict(list(self.calls.items())[-_KEPT_CALLS:]),
            "about": about,
        }
