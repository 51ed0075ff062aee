"""What every part of a file store needs: the paths of a session, its metadata, and the contents of its log.

A layout defines the first half of `FileLayout`; the second half is the same for all layouts. `FileStore` adds the
operations of the store protocol, `writer` adds locking and appending.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from typing import Any, NamedTuple

import msgspec

from cortext.errors import not_fetched, session_not_found
from cortext.io import durable, locks
from cortext.io.jsonl import MAX_LINE
from cortext.model import clock
from cortext.model.ids import check_id
from cortext.model.message import Message
from cortext.model.session import Change, Session
from cortext.model.threads import branches
from cortext.store.base import TORN, Damage, Reading
from cortext.store.files import archive
from cortext.store.files.journal import TAIL_BLOCK, JournalReading, offset_of
from cortext.store.files.layout_paths import CHANGES, Folders, SessionFiles, control_folder, lock_file
from cortext.store.files.lines import BadLine, decode_line, encode_message
from cortext.store.files.log import LogEnd, OpenLog, keep_in_quarantine
from cortext.store.files.merge import is_pointer
from cortext.store.files.metadata import Metadata
from cortext.store.files.repair import Transform

LOCK_TIMEOUT = 5.0
LFS = "a pointer of Git LFS, whose content was not fetched"
FIRST_LINES = 4  # enough for a line of metadata and the message after it


class OpenedPaths(NamedTuple):
    """The paths of a session that has been opened: its files and their folder, its lock file and its folder."""

    files: SessionFiles
    folder: str
    lock: str
    locks: str


class Survey(msgspec.Struct, frozen=True):
    """The result of reading the whole log."""

    messages: int  # with asides
    asides: int
    tokens: int
    branches: int
    first: str
    last: str
    is_linear: bool
    damage: list[Damage]


class FileLayout:
    """The files of a store. A layout overrides the methods up to `may_restore_to`, and no others."""

    name = "files"
    # Whether a session is active only while a process holds its lock: one whose process died is interrupted.
    is_leased = False
    # Whether the metadata contains counts, which an append does not update (see `settle`).
    has_counts = False

    def __init__(self, root: str, *, lock_timeout: float = LOCK_TIMEOUT) -> None:
        self.root = os.path.abspath(root)
        self.control = control_folder(self.name, self.root)
        self.lock_timeout = lock_timeout
        self.folders = Folders(self.root)
        self.positions: dict[str, LogEnd] = {}
        self.opened_paths: dict[str, OpenedPaths] = {}
        self.changes_path = os.path.join(self.control, CHANGES)

    # ── what a layout defines ────────────────────────────────────────────────────────────────────────

    def ids(self) -> Iterator[str]:
        """Return the ids of all sessions."""
        raise NotImplementedError

    def locate(self, session_id: str) -> SessionFiles | None:
        """Return the files of a session, or None if it does not exist. The caller has checked the id."""
        raise NotImplementedError

    def new_files(self, session: Session) -> SessionFiles:
        """Return the files that a new session will have."""
        raise NotImplementedError

    def load(self, files: SessionFiles) -> Metadata:
        """Read the metadata. Whatever cannot be read is reported as damage and never raises an error."""
        raise NotImplementedError

    def save(self, files: SessionFiles, session: Session, fields: dict[str, Any]) -> None:
        """Replace the metadata atomically; `fields` are the old fields, including unknown ones."""
        raise NotImplementedError

    def line_prefix(self, seq: int, files: SessionFiles) -> bytes:
        """Return the keys that this layout writes before those of the message, as JSON."""
        return b""

    def to_trash(self, files: SessionFiles) -> list[str]:
        """Return the paths that move when the session is deleted; the first one is the session itself."""
        return [files.path]

    def may_restore_to(self, session_id: str, path: str) -> bool:
        """Whether a file of this session may be restored to this path: a note in the trash may be forged."""
        return path in self.to_trash(self.new_files(Session(id=session_id)))

    def before_change(self, session_id: str) -> None:
        """Called with the session's lock held, before anything else; the workspace layout keeps safety copies."""

    def after_change(self, session_id: str) -> None:
        """Called before the session's lock is released."""

    def forget_copy(self, files: SessionFiles, *, deleted: bool = False) -> None:
        """Called before a session's lines are rewritten, or the session is deleted: no copy of the old may stay."""

    def rewrite_copy(self, files: SessionFiles, transform: Transform) -> None:
        """Called before a secret is removed from a session's lines."""

    # ── what all layouts share ───────────────────────────────────────────────────────────────────────

    def files_of(self, session_id: str) -> SessionFiles:
        """Return the files of a session, or raise SessionNotFound."""
        files = self.locate(check_id(session_id))
        if files is None:
            raise session_not_found(session_id)
        self.folders.check(os.path.dirname(files.log))
        return files

    def opened_files(self, session_id: str, lock: str) -> SessionFiles:
        """Return the same as `files_of`, cached: it costs two stats and builds no paths."""
        paths = self.opened_paths.get(session_id)
        if paths is not None:
            self.folders.check(paths.folder)
            if os.path.lexists(paths.files.log):
                return paths.files
            del self.opened_paths[session_id]
        files = self.files_of(session_id)
        self.opened_paths[session_id] = OpenedPaths(files, os.path.dirname(files.log), lock, os.path.dirname(lock))
        return files

    def lock_path(self, session_id: str) -> str:
        """Return the path of a session's lock file."""
        return lock_file(self.control, check_id(session_id))

    def ensure_control(self) -> None:
        """Create the folder for locks and trash, which git ignores."""
        ignore = os.path.join(self.control, ".gitignore")
        if not os.path.exists(ignore):
            durable.ensure_folder(self.control)
            durable.replace_file(ignore, [b"# locks and trash of this machine: never in git\n*\n"])

    def metadata(self, files: SessionFiles) -> Session:
        """Return the session as its metadata describes it, without counts."""
        return msgspec.structs.replace(self.load(files).session, store=self.name, path=files.path)

    def with_counts(self, files: SessionFiles) -> Session:
        """Return the session with everything that is derived from the log."""
        metadata = self.load(files)
        survey = self.stable_survey(files)
        session = metadata.session
        created = session.created_at or survey.first or clock.from_epoch(os.stat(files.path).st_mtime)
        return msgspec.structs.replace(
            session,
            message_count=survey.messages - survey.asides,
            aside_count=survey.asides,
            branch_count=survey.branches,
            # Another program's summary covers what its file counts, which may be more than there is.
            summary_covers=session.summary_covers
            if session.summary_by
            else min(session.summary_covers, survey.messages),
            token_count=survey.tokens,
            is_linear=survey.is_linear,
            created_at=created,
            last_active=max(session.last_active, survey.last) or created,
            store=self.name,
            path=files.path,
            damage=len(metadata.damage) + len(survey.damage),
            leased=self.is_held(files) if self.is_leased else None,
        )

    def reading(self, files: SessionFiles, start: int, *, outline: bool = False, brief: bool = False) -> Reading:
        """Return the messages from `start` on, or from slightly before it: reading begins at a block."""
        if files.archive:
            return archive.ArchivedReading(files.archive, files.log, start, outline=outline, brief=brief)
        seek = partial(offset_of, seq=start)
        return JournalReading(files.log, seek=seek, outline=outline, brief=brief)

    def survey(self, files: SessionFiles) -> Survey:
        """Read the whole log: its counts, its timestamps and its damage."""
        reading = self.reading(files, 0, outline=True)
        count, asides, tokens, first, last, is_linear, is_split = 0, 0, 0, "", "", True, False
        for message in reading:
            count += 1
            asides += message.aside
            tokens += message.tokens or 0
            if message.timestamp > last:
                last = message.timestamp
            first = first or message.timestamp
            is_split |= bool(message.forked_from) or message.joins
            is_plain = not (message.parent or message.partial or message.aside or message.replaces or is_split)
            if not is_plain or message.seq != count - 1:
                is_linear = False
        if last and not clock.normalise(last):  # an invalid timestamp must not hide the valid ones
            timestamps = (clock.normalise(message.timestamp) for message in self.reading(files, 0, outline=True))
            last = max(timestamps, default="")
        split = len(branches(self.reading(files, 0, outline=True))) if is_split else 1
        times = clock.normalise(first), clock.normalise(last)
        return Survey(count, asides, tokens, split, *times, is_linear, reading.damage)

    def is_held(self, files: SessionFiles) -> bool:
        """Whether a process holds the session's lock."""
        return locks.read_holder(self.lock_path(files.session_id)) is not None

    def stable_survey(self, files: SessionFiles) -> Survey:
        """Return the survey, without reporting a last line that is being written right now as damage."""
        survey = self.survey(files)
        while torn := [item for item in survey.damage if item.kind == TORN]:
            if self.is_held(files):
                return msgspec.structs.replace(survey, damage=[item for item in survey.damage if item.kind != TORN])
            before, survey = survey, self.survey(files)  # the writer may have completed that line by now
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
                self._quarantine_metadata(files, item)
        self.save(files, changed, metadata.fields)
        # The log cannot change under our lock: it is read again only if damage was just repaired.
        return self.with_counts(files) if metadata.damage else changed

    def _quarantine_metadata(self, files: SessionFiles, item: Damage) -> None:
        """Keep the bytes of an unreadable metadata file, which is about to be replaced."""
        path = os.path.join(os.path.dirname(files.metadata), item.file)
        if item.length > MAX_LINE:  # moved, because a copy could fill the disk
            durable.move(path, f"{path}.{clock.now().replace(':', '')}.aside")
            return
        descriptor = durable.open_file(path, os.O_RDONLY)
        try:
            keep_in_quarantine(files.log, descriptor, [(item.offset, item.length, item.reason)], name=item.file)
        finally:
            os.close(descriptor)

    def open_log(self, files: SessionFiles) -> OpenLog:
        """Open the log for appending. The caller holds the lock."""

        def encode_line(message: Message) -> bytes:
            return encode_message(message, self.line_prefix(message.seq, files))

        known = self.positions.get(files.log)
        if known is None:
            self.refuse_pointers(files)
        return OpenLog(files.log, encode_line, first_seq=partial(self.first_seq, files), known=known)

    def pointers(self, files: SessionFiles) -> list[str]:
        """Return the files of a session that Git LFS has not fetched."""
        return [path for path in (files.log, files.metadata, files.archive) if path and is_pointer(path)]

    def refuse_pointers(self, files: SessionFiles) -> None:
        """Raise DamagedData if Git LFS has not fetched a file: writing to it would replace its content in git."""
        for path in self.pointers(files):
            raise not_fetched(path, LFS)

    def first_seq(self, files: SessionFiles) -> int:
        """Return the sequence number that the log begins with; called when the log has changed since we wrote it."""
        seq = _seq_in_first_lines(files.log)
        return archive.first_seq(files.archive, files.log) if seq < 0 else seq


def _seq_in_first_lines(path: str) -> int:
    """Return the sequence number of the first message; -1 if it has none, or is not among the first lines."""
    try:
        descriptor = durable.open_file(path, os.O_RDONLY)
    except FileNotFoundError:
        return -1
    try:
        block = os.pread(descriptor, TAIL_BLOCK, 0)
    finally:
        os.close(descriptor)
    for raw in block.split(b"\n", FIRST_LINES)[:-1]:
        try:
            message = decode_line(raw)
        except BadLine:
            continue
        if message.role:
            return message.seq
    return -1
