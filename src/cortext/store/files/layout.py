"""What every part of a file store needs: where a session's files lie, how its metadata is read, what its log holds.

A layout defines the first half of `FileLayout`; the second half is the same for all of them. `FileStore` adds the
operations of the store protocol, `writer` the locking and appending.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import msgspec

from cortext.errors import session_not_found
from cortext.io import files as fsio
from cortext.io import locks
from cortext.io.jsonl import MAX_LINE
from cortext.model import clock
from cortext.model.ids import check_id
from cortext.model.message import Message
from cortext.model.session import Change, Session
from cortext.store.base import TORN, Damage, Reading
from cortext.store.files import archive, quarantine
from cortext.store.files.folders import Folders
from cortext.store.files.journal import JournalReading
from cortext.store.files.layout_paths import CHANGES, SessionFiles, control_folder, lock_file
from cortext.store.files.lines import BadLine, decode_line, encode_message
from cortext.store.files.log import OpenLog, Position
from cortext.store.files.metadata import Metadata
from cortext.store.files.seek import TAIL_BLOCK, offset_of

LOCK_TIMEOUT = 5.0
FIRST_LINES = 4  # a line of metadata, and the message after it


class OpenedPaths(NamedTuple):
    """The paths of a session that was open before: its files, their folder, its lock file and the folder of that."""

    files: SessionFiles
    folder: str
    lock: str
    locks: str


class Survey(msgspec.Struct, frozen=True):
    """What a reading of the whole log tells."""

    messages: int
    tokens: int
    first: str
    last: str
    is_linear: bool
    damage: list[Damage]


class FileLayout:
    """The files of a store. A layout overrides the methods down to `may_restore_to`, and nothing else."""

    name = "files"
    # Whether a session is active only while a process holds it (then a dead holder means interrupted).
    leased = False
    # Whether the metadata holds counts, which an append does not touch (see `settle`).
    counted = False

    def __init__(self, root: str, *, lock_timeout: float = LOCK_TIMEOUT) -> None:
        self.root = os.path.abspath(root)
        self.control = control_folder(self.name, self.root)
        self.lock_timeout = lock_timeout
        self.folders = Folders(self.root)
        self.positions: dict[str, Position] = {}
        self.opened: dict[str, OpenedPaths] = {}
        self.changes_path = os.path.join(self.control, CHANGES)

    # ── what a layout defines ────────────────────────────────────────────────────────────────────────

    def ids(self) -> Iterator[str]:
        """The ids of all sessions."""
        raise NotImplementedError

    def locate(self, session_id: str) -> SessionFiles | None:
        """Where a session lies; None where there is none. The id was checked."""
        raise NotImplementedError

    def new_files(self, session: Session) -> SessionFiles:
        """Where a new session will lie."""
        raise NotImplementedError

    def load(self, files: SessionFiles) -> Metadata:
        """Read the metadata. What cannot be read becomes damage, never an error."""
        raise NotImplementedError

    def save(self, files: SessionFiles, session: Session, fields: dict[str, Any]) -> None:
        """Replace the metadata atomically; `fields` are the old ones, unknown ones among them."""
        raise NotImplementedError

    def line_prefix(self, seq: int, files: SessionFiles) -> bytes:
        """The keys that this layout writes before those of the message."""
        return b""

    def to_trash(self, files: SessionFiles) -> list[str]:
        """What moves when the session is deleted; the first is the session itself."""
        return [files.path]

    def may_restore_to(self, session_id: str, path: str) -> bool:
        """Whether a file of this session may come back to this path: a note in the trash may be forged."""
        return path in self.to_trash(self.new_files(Session(id=session_id)))

    # ── what all layouts share ───────────────────────────────────────────────────────────────────────

    def files_of(self, session_id: str) -> SessionFiles:
        """The files of a session that exists; SessionNotFound."""
        files = self.locate(check_id(session_id))
        if files is None:
            raise session_not_found(session_id)
        self.folders.check(os.path.dirname(files.log))
        return files

    def opened_files(self, session_id: str, lock: str) -> SessionFiles:
        """`files_of`, remembered from an earlier call: two stats, and no path to build."""
        paths = self.opened.get(session_id)
        if paths is not None:
            self.folders.check(paths.folder)
            if os.path.lexists(paths.files.log):
                return paths.files
            del self.opened[session_id]
        files = self.files_of(session_id)
        self.opened[session_id] = OpenedPaths(files, os.path.dirname(files.log), lock, os.path.dirname(lock))
        return files

    def lock_path(self, session_id: str) -> str:
        """The lock file of a session."""
        return lock_file(self.control, check_id(session_id))

    def ensure_control(self) -> None:
        """The folder for locks and trash; it keeps itself out of git."""
        ignore = os.path.join(self.control, ".gitignore")
        if not os.path.exists(ignore):
            fsio.ensure_folder(self.control)
            fsio.replace_file(ignore, [b"# locks and trash of this machine: never in git\n*\n"])

    def metadata(self, files: SessionFiles) -> Session:
        """The session as its metadata describes it, without counts."""
        return msgspec.structs.replace(self.load(files).session, store=self.name, path=files.path)

    def with_counts(self, files: SessionFiles) -> Session:
        """The session with everything that comes from the log."""
        metadata = self.load(files)
        survey = self.settled_survey(files)
        session = metadata.session
        created = session.created_at or survey.first or clock.from_epoch(os.stat(files.path).st_mtime)
        return msgspec.structs.replace(
            session,
            message_count=survey.messages,
            token_count=survey.tokens,
            is_linear=survey.is_linear,
            created_at=created,
            last_active=max(session.last_active, survey.last) or created,
            store=self.name,
            path=files.path,
            damage=len(metadata.damage) + len(survey.damage),
            leased=self.is_held(files) if self.leased else None,
        )

    def reading(self, files: SessionFiles, start: int, *, outline: bool = False, brief: bool = False) -> Reading:
        """The messages from about `start` on (a block may begin before it)."""
        if files.archive:
            return archive.ArchivedReading(files.archive, files.log, start, outline=outline, brief=brief)
        seek = partial(offset_of, seq=start)
        return JournalReading(files.log, seek=seek, outline=outline, brief=brief)

    def survey(self, files: SessionFiles) -> Survey:
        """Count the log, and note what is wrong in it."""
        reading = self.reading(files, 0, outline=True)
        count, tokens, first, last, is_linear = 0, 0, "", "", True
        for message in reading:
            count += 1
            tokens += message.tokens or 0
            if message.timestamp > last:
                last = message.timestamp
            first = first or message.timestamp
            if message.parent or message.partial or message.aside or message.seq != count - 1:
                is_linear = False
        if last and not clock.normalise(last):  # not a moment: it must not hide those that are
            moments = (clock.normalise(message.timestamp) for message in self.reading(files, 0, outline=True))
            last = max(moments, default="")
        return Survey(count, tokens, clock.normalise(first), clock.normalise(last), is_linear, reading.damage)

    def is_held(self, files: SessionFiles) -> bool:
        """Whether a process holds the session's lock."""
        return locks.read_holder(self.lock_path(files.session_id)) is not None

    def settled_survey(self, files: SessionFiles) -> Survey:
        """The survey, without a last line that somebody is writing at this moment."""
        survey = self.survey(files)
        while torn := [item for item in survey.damage if item.kind == TORN]:
            if self.is_held(files):
                return msgspec.structs.replace(survey, damage=[item for item in survey.damage if item.kind != TORN])
            before, survey = survey, self.survey(files)  # who wrote that line may be done with it by now
            if torn == [item for item in survey.damage if item.kind == TORN] and survey.messages == before.messages:
                break
        return survey

    def change_metadata(self, files: SessionFiles, change: Change) -> Session:
        """Apply the change and write the metadata. The caller holds the lock."""
        metadata = self.load(files)
        full = self.with_counts(files)
        changed = change.apply(full)
        for item in metadata.damage:
            if item.length:
                self._set_aside(files, item)
        self.save(files, changed, metadata.fields)
        # The log did not change under our lock: only damage that was just mended is worth another look.
        return self.with_counts(files) if metadata.damage else changed

    def _set_aside(self, files: SessionFiles, item: Damage) -> None:
        """Keep the bytes of a metadata file that cannot be read: it is about to be replaced."""
        path = os.path.join(os.path.dirname(files.metadata), item.file)
        if item.length > MAX_LINE:  # no metadata at all: moved aside, for a copy could fill the disk
            fsio.move(path, f"{path}.{clock.now().replace(':', '')}.aside")
            return
        descriptor = fsio.open_file(path, os.O_RDONLY)
        try:
            quarantine.keep(files.log, descriptor, [(item.offset, item.length, item.reason)], name=item.file)
        finally:
            os.close(descriptor)

    def open_log(self, files: SessionFiles) -> OpenLog:
        """The log, open for appending. The caller holds the lock."""

        def encode_line(message: Message) -> bytes:
            return encode_message(message, self.line_prefix(message.seq, files))

        known = self.positions.get(files.log)
        return OpenLog(files.log, encode_line, first_seq=partial(self.first_seq, files), known=known)

    def first_seq(self, files: SessionFiles) -> int:
        """The number that the log begins with; asked whenever the log is not as we left it."""
        first = first_number(files.log)
        return archive.first_seq(files.archive, files.log) if first < 0 else first


def first_number(path: str) -> int:
    """The number of the first message, where it stands in the first lines and says one; else -1."""
    try:
        descriptor = fsio.open_file(path, os.O_RDONLY)
    except FileNotFoundError:
        return -1
    try:
        piece = os.pread(descriptor, TAIL_BLOCK, 0)
    finally:
        os.close(descriptor)
    for raw in piece.split(b"\n", FIRST_LINES)[:-1]:
        try:
            message = decode_line(raw)
        except BadLine:
            continue
        if message.role:
            return message.seq
    return -1
