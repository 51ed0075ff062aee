"""The store protocol on files, the same for all layouts: create, read, append, delete, compact, repair."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager

import msgspec

from cortext.errors import (
    DamagedData,
    SessionNotFound,
    UnsafePath,
    UsageError,
    invalid_trash_key,
    session_exists,
    session_exists_again,
    session_not_found,
)
from cortext.io import durable
from cortext.model import clock
from cortext.model.ids import check_id, is_id
from cortext.model.message import Message
from cortext.model.session import Change, Session, check_status
from cortext.model.threads import Outline
from cortext.store.base import POINTER, Damage, Reading, RepairReport, Trashed, Writer
from cortext.store.files import archive
from cortext.store.files.fields import number_field
from cortext.store.files.journal import tail
from cortext.store.files.layout import LFS, LOCK_TIMEOUT, FileLayout
from cortext.store.files.layout_paths import TRASH, SessionFiles
from cortext.store.files.log import OpenLog, quarantine_path
from cortext.store.files.metadata import save_fields
from cortext.store.files.repair import (
    Transform,
    has_crlf,
    repair_file,
    rewrite,
    rewrite_fields,
    survey_file,
    with_line_feeds,
)
from cortext.store.files.trash import Trash
from cortext.store.files.writer import OpenWriter, SessionLock

SHORT_LOG = 1 << 20  # bytes; a shorter log is counted from the start


class FileStore(FileLayout):
    """A store of files; a layout defines their paths and the keys of their metadata."""

    def __init__(self, root: str, *, lock_timeout: float = LOCK_TIMEOUT) -> None:
        super().__init__(root, lock_timeout=lock_timeout)
        self._trash = Trash(self.folders, os.path.join(self.control, TRASH))

    @durable.reports_os_errors
    def create(self, session: Session) -> Session:
        check_id(session.id)
        check_status(session.status)
        created = clock.normalise(session.created_at) or clock.now()
        session = msgspec.structs.replace(
            session,
            created_at=created,
            last_active=clock.normalise(session.last_active) or created,
            message_count=0,
            aside_count=0,
            token_count=0,
        )
        with self.locked(session.id, new=True):
            if self.locate(session.id) is not None:
                raise session_exists(session.id)
            files = self.new_files(session)
            self.folders.check(os.path.dirname(files.log))
            durable.ensure_folder(os.path.dirname(files.log), self.root)
            self.make(files, session)
        return self.get(session.id)

    def make(self, files: SessionFiles, session: Session) -> None:
        """Write the files of a new session, metadata first: it then exists completely or not at all."""
        self.save(files, session, {})
        durable.AppendFile(files.log).close()

    def get(self, session_id: str) -> Session:
        files = self.files_of(session_id)
        try:
            session = self.with_counts(files)
        except FileNotFoundError:  # it was deleted after `files_of`
            raise session_not_found(session_id) from None
        if session.damage and not os.path.lexists(files.path):  # it was deleted while it was read
            raise session_not_found(session_id)
        return session

    def peek(self, session_id: str) -> Session:
        files = self.files_of(session_id)
        try:
            return self.metadata(files)
        except FileNotFoundError:
            raise session_not_found(session_id) from None

    def sessions(self) -> Iterator[Session]:
        for session_id in self.ids():
            if not is_id(session_id):
                continue
            try:
                yield self.with_counts(self.files_of(session_id))
            except SessionNotFound:
                continue
            except (OSError, UnsafePath):
                # It is unreadable for this user, or was just deleted: list it as damaged.
                yield Session(id=session_id, status="", store=self.name, path=self.root, damage=1)

    def read(self, session_id: str, start: int = 0) -> Reading:
        return FromSequence(self.reading(self.files_of(session_id), start), start)

    def outline(self, session_id: str) -> Iterator[Outline]:
        return iter(self.reading(self.files_of(session_id), 0, outline=True))

    def skim(self, session_id: str) -> Iterator[Message]:
        """See capabilities.Skims."""
        return iter(self.reading(self.files_of(session_id), 0, brief=True))

    def tail(self, session_id: str, count: int) -> list[Message]:
        files = self.files_of(session_id)
        if os.path.islink(files.archive):
            durable.open_file(files.archive, os.O_RDONLY)  # raises UnsafePath: a session with a link is not read at all
        newest = tail(files.log, count, FileLayout.first_seq(self, files))
        # Checked only after the log was read: a compaction may have created it meanwhile.
        if len(newest) >= count or not archive.exists(files.archive):
            return newest
        return list(deque(self.reading(files, 0), maxlen=count))

    def open(self, session_id: str, timeout: float | None = None) -> AbstractContextManager[Writer]:
        return OpenWriter(self, session_id, timeout)

    def locked(self, session_id: str, timeout: float | None = None, *, new: bool = False) -> SessionLock:
        """Return the session's lock as a context manager; `new` if the session may not exist yet."""
        return SessionLock(self, session_id, timeout, new)

    def append(self, session_id: str, *messages: Message) -> list[Message]:
        with self.open(session_id) as writer:
            return writer.append(*messages)

    def update(self, session_id: str, change: Change) -> Session:
        with self.open(session_id) as writer:
            return writer.update(change)

    @durable.reports_os_errors
    def delete(self, session_id: str) -> Trashed:
        with self.locked(session_id) as lock:
            files = self.files_of(session_id)
            self.forget_copy(files, deleted=True)
            trashed = self._trash.put(session_id, self.to_trash(files))
            self.positions.pop(files.log, None)
            self.opened_paths.pop(session_id, None)
            lock.sweep()
        return trashed

    def trash(self) -> Iterator[Trashed]:
        return self._trash.items()

    @durable.reports_os_errors
    def restore(self, key: str) -> Session:
        session_id, _, stamp = key.rpartition(".")
        if not is_id(session_id) or not is_id(stamp):
            raise invalid_trash_key(key)
        self._trash.find(key)
        with self.locked(session_id, new=True):
            if self.locate(session_id) is not None:
                raise session_exists_again(session_id)
            self._trash.restore(key, self.may_restore_to)
        return self.get(session_id)

    def close(self) -> None:
        """Do nothing: files are closed after each use."""

    def check(self, session_id: str) -> list[Damage]:
        files = self.files_of(session_id)
        if pointers := self.pointers(files):
            return [Damage(os.path.basename(path), 0, os.stat(path).st_size, POINTER, LFS) for path in pointers]
        return [*self.load(files).damage, *self.stable_survey(files).damage]

    @durable.reports_os_errors
    def compact(self, session_id: str, before: int) -> int:
        """See capabilities.Compacts. Only layouts with an archive support it."""
        with self.locked(session_id):
            files = self.files_of(session_id)
            if not files.archive:
                raise UsageError(f"a {self.name} session has no archive", kept="everything, unchanged")
            self.open_log(files).close()  # quarantines a torn last line, as an append does
            if archive.exists(files.archive):
                OpenLog(files.archive, lambda _: b"").close()
            # Not `check`: it ignores a torn line while the lock is held, and we hold it.
            damage = [*self.load(files).damage, *self.survey(files).damage]
            if damage:
                raise DamagedData(
                    f"session {session_id} is damaged ({damage[0].reason})",
                    kept="everything, unchanged",
                    hint=f"run `cortext repair {session_id}` first",
                )
            self.forget_copy(files)
            moved = archive.compact(files.archive, files.log, before, numbered=bool(self.line_prefix(0, files)))
            self.positions.pop(files.log, None)
            if moved:
                self.change_metadata(files, Change())
        return moved

    @durable.reports_os_errors
    def settle(self, session_id: str) -> None:
        """See capabilities.Settles. A long log is read only after the messages that the metadata counts."""
        if not self.has_counts:
            return
        with self.locked(session_id):
            files = self.files_of(session_id)
            metadata = self.load(files)
            last = tail(files.log, 1, FileLayout.first_seq(self, files))
            if metadata.damage or not last:
                return
            fields = metadata.fields
            asides, active = number_field(fields, "aside_count"), metadata.session.last_active
            count = number_field(fields, "message_count") + asides
            if count == last[0].seq + 1 and active >= last[0].timestamp:
                return
            tokens = number_field(fields, "token_count")
            if os.stat(files.log).st_size < SHORT_LOG or not 0 < count <= last[0].seq:
                count = asides = tokens = 0
            for message in FromSequence(self.reading(files, count, outline=True), count):
                count += 1
                asides += message.aside
                tokens += message.tokens or 0
                active = max(active, clock.normalise(message.timestamp))
            counts = {"message_count": count - asides, "token_count": tokens, "last_active": active}
            if asides or "aside_count" in fields:
                counts["aside_count"] = asides
            if metadata.session.summary_covers:  # of another program's summary: until now, the count said how far
                counts["summary_covers"] = metadata.session.summary_covers
            if "archive_count" in fields:
                counts["current_count"] = count - number_field(fields, "archive_count")
            save_fields(files.metadata, {**fields, **counts}, aside=self.control)

    @durable.reports_os_errors
    def rewrite(self, session_id: str, transform: Transform) -> int:
        """See capabilities.Rewrites."""
        with self.locked(session_id):
            files = self.files_of(session_id)
            self.rewrite_copy(files, transform)
            changed = rewrite(files.log, transform) + (rewrite(files.archive, transform) if files.archive else 0)
            self.positions.pop(files.log, None)
            if files.metadata != files.log:
                changed += rewrite_fields(files.metadata, transform)
        return changed

    @durable.reports_os_errors
    def mend_line_ends(self, session_id: str, *, dry_run: bool = False) -> bool:
        """See capabilities.MendsLineEnds."""
        files = self.files_of(session_id)
        wrong = [path for path in files[2:] if path and os.path.isfile(path) and has_crlf(path)]
        if not wrong or dry_run:
            return bool(wrong)
        with self.locked(session_id):
            files = self.files_of(session_id)
            self.forget_copy(files)
            for path in wrong:
                durable.replace_file(path, with_line_feeds(path))
            self.positions.pop(files.log, None)
        return True

    @durable.reports_os_errors
    def repair(self, session_id: str, *, dry_run: bool = False) -> RepairReport:
        with self.locked(session_id):
            files = self.files_of(session_id)
            self.refuse_pointers(files)
            metadata = self.load(files)
            report = RepairReport(
                session=session_id,
                damage=[*metadata.damage],
                kept_messages=0,
                quarantined_bytes=0,
                quarantine="",
                changed=False,
                dry_run=dry_run,
            )
            first_seq, archived = 0, ""
            if not dry_run:
                self.forget_copy(files)
            for path in (files.archive, files.log) if archive.exists(files.archive) else (files.log,):
                found = (survey_file if dry_run else repair_file)(path, first_seq, archived)
                report.damage += found.damage
                report.quarantined_bytes += found.quarantined
                if found.quarantined and not report.quarantine:
                    report.quarantine = quarantine_path(path)
                first_seq, archived = archive.log_start(files.archive, files.log)
            metadata_bytes = sum(item.length for item in metadata.damage)
            if metadata_bytes:
                report.quarantined_bytes += metadata_bytes
                report.quarantine = quarantine_path(files.log)
            if metadata.damage and not dry_run:
                self.change_metadata(files, Change())
            report.kept_messages = self.survey(files).messages
            report.changed = bool(report.damage) and not dry_run
            self.positions.pop(files.log, None)
        return report


class FromSequence:
    """A reading without the messages before sequence number `start`: the reading itself may begin earlier."""

    def __init__(self, reading: Reading, start: int) -> None:
        self._reading = reading
        self._start = start

    @property
    def damage(self) -> list[Damage]:
        return self._reading.damage

    def __iter__(self) -> Iterator[Message]:
        if not self._start:
            return iter(self._reading)
        return (message for message in self._reading if message.seq >= self._start)
