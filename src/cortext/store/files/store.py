"""What the three file layouts have in common: locks, writers, trash, repair, and reading with counts.

A layout says where its files lie and how its metadata is spelled; everything that must be right about
writing is here, once.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import partial
from typing import Any

import msgspec

from cortext.errors import DamagedData, InvalidId, SessionExists, SessionNotFound, UnsafePath, UsageError
from cortext.io import files as fsio
from cortext.io import locks
from cortext.io.jsonl import MAX_LINE
from cortext.model import clock
from cortext.model.ids import check_id, is_id
from cortext.model.message import Message, Outline
from cortext.model.session import Change, Session
from cortext.model.status import STORED, check_transition
from cortext.store.base import TORN, Damage, Reading, RepairReport, Trashed, Writer
from cortext.store.files import archive, quarantine
from cortext.store.files import layout_paths as shapes
from cortext.store.files import repair as mend
from cortext.store.files.fields import number_field, save_fields
from cortext.store.files.folders import Folders
from cortext.store.files.journal import JournalReading
from cortext.store.files.lines import BadLine, decode_line, encode_message
from cortext.store.files.log import OpenLog, Position
from cortext.store.files.rewrite import Transform, rewrite, rewrite_fields
from cortext.store.files.seek import TAIL_BLOCK, offset_of, tail
from cortext.store.files.session_files import Metadata, Place, Survey, Way
from cortext.store.files.trash import Trash
from cortext.store.files.writer import Locked, Opened

LOCK_TIMEOUT = 5.0
SHORT_LOG = 1 << 20  # one that is shorter is counted whole
FIRST_LINES = 4  # a line of metadata, and the message after it


class FileStore:
    """A store of files. Layouts override what is marked below, and nothing else."""

    name = "files"
    # Whether a session is active only while a process holds it (then a dead holder means interrupted).
    leased = False
    # Whether the metadata holds counts, which an append does not touch (see `settle`).
    counted = False

    def __init__(self, root: str, *, control: str | None = None, lock_timeout: float = LOCK_TIMEOUT) -> None:
        self.root = os.path.abspath(root)
        self.control = os.path.abspath(control or os.path.join(self.root, ".cortext"))
        self.lock_timeout = lock_timeout
        self.folders = Folders(self.root)
        self._positions: dict[str, Position] = {}
        self._ways: dict[str, Way] = {}
        self._changes = os.path.join(self.control, shapes.CHANGES)
        self._trash = Trash(self.folders, os.path.join(self.control, "trash"))

    # ── what a layout says ───────────────────────────────────────────────────────────────────────────

    def _ids(self) -> Iterator[str]:
        """The ids of all sessions."""
        raise NotImplementedError

    def _find(self, session_id: str) -> Place | None:
        """Where a session lies; None where there is none. The id was checked."""
        raise NotImplementedError

    def _new_place(self, session: Session) -> Place:
        """Where a new session will lie."""
        raise NotImplementedError

    def _load(self, place: Place) -> Metadata:
        """Read the metadata. What cannot be read becomes damage, never an error."""
        raise NotImplementedError

    def _save(self, place: Place, session: Session, fields: dict[str, Any]) -> None:
        """Replace the metadata atomically; `fields` are the old ones, unknown ones among them."""
        raise NotImplementedError

    def _line_prefix(self, seq: int, place: Place) -> bytes:
        """The keys that this layout writes before those of the message."""
        return b""

    def _to_trash(self, place: Place) -> list[str]:
        """What moves when the session is deleted; the first is the session itself."""
        return [place.whole]

    def _may_lie(self, session_id: str, path: str) -> bool:
        """Whether a file of this session may come back to this path: a note in the trash may be forged."""
        return path in self._to_trash(self._new_place(Session(id=session_id)))

    # ── the protocol ─────────────────────────────────────────────────────────────────────────────────

    @fsio.told
    def create(self, session: Session) -> Session:
        check_id(session.id)
        check_transition(session.status, session.status if session.status in STORED else "")
        created = clock.normalise(session.created_at) or clock.now()
        session = msgspec.structs.replace(
            session,
            created_at=created,
            last_active=clock.normalise(session.last_active) or created,
            message_count=0,
            token_count=0,
        )
        with self._locked(session.id, new=True):
            if self._find(session.id) is not None:
                raise SessionExists(f"there is a session {session.id} already", kept="it is unchanged")
            place = self._new_place(session)
            self.folders.check(os.path.dirname(place.log))
            fsio.ensure_folder(os.path.dirname(place.log), self.root)
            self._make(place, session)
        return self.get(session.id)

    def _make(self, place: Place, session: Session) -> None:
        """Write the files of a new session; the metadata first, so that it exists whole or not at all."""
        self._save(place, session, {})
        fsio.AppendFile(place.log).close()

    def get(self, session_id: str) -> Session:
        place = self._place(session_id)
        try:
            session = self._full(place)
        except FileNotFoundError:  # somebody deleted it between the two lines
            raise _not_found(session_id) from None
        if session.damage and not os.path.lexists(place.whole):  # all that is wrong with it is that it went
            raise _not_found(session_id)
        return session

    def peek(self, session_id: str) -> Session:
        place = self._place(session_id)
        try:
            return self._metadata(place)
        except FileNotFoundError:
            raise _not_found(session_id) from None

    def sessions(self) -> Iterator[Session]:
        for session_id in self._ids():
            if not is_id(session_id):
                continue
            try:
                yield self._full(self._place(session_id))
            except SessionNotFound:
                continue
            except (OSError, UnsafePath):
                # Not ours to read, or gone since: say that it is there and that something is wrong.
                yield Session(id=session_id, status="", store=self.name, path=self.root, damage=1)

    def read(self, session_id: str, start: int = 0) -> Reading:
        return FromSequence(self._read(self._place(session_id), start), start)

    def outline(self, session_id: str) -> Iterator[Outline]:
        return iter(self._read(self._place(session_id), 0, outline=True))

    def skim(self, session_id: str) -> Iterator[Message]:
        """See base.Skims."""
        return iter(self._read(self._place(session_id), 0, brief=True))

    def tail(self, session_id: str, count: int) -> list[Message]:
        place = self._place(session_id)
        if os.path.islink(place.archive):
            fsio.open_file(place.archive, os.O_RDONLY)  # refuses: a session with a link in it is not read at all
        newest = tail(place.log, count, FileStore._first_seq(self, place))
        # Asked only after the log was read: a compaction may have made it meanwhile.
        if len(newest) >= count or not archive.exists(place.archive):
            return newest
        return list(deque(self._read(place, 0), maxlen=count))

    def open(self, session_id: str, timeout: float | None = None) -> AbstractContextManager[Writer]:
        return Opened(self, session_id, timeout)

    def append(self, session_id: str, *messages: Message) -> list[Message]:
        with self.open(session_id) as writer:
            return writer.append(*messages)

    def update(self, session_id: str, change: Change) -> Session:
        with self.open(session_id) as writer:
            return writer.update(change)

    @fsio.told
    def delete(self, session_id: str) -> Trashed:
        with self._locked(session_id) as lock:
            place = self._place(session_id)
            trashed = self._trash.put(session_id, self._to_trash(place))
            self._positions.pop(place.log, None)
            self._ways.pop(session_id, None)
            lock.sweep()
        return trashed

    def trash(self) -> Iterator[Trashed]:
        return self._trash.items()

    @fsio.told
    def restore(self, key: str) -> Session:
        session_id, _, stamp = key.rpartition(".")
        if not is_id(session_id) or not is_id(stamp):
            raise InvalidId(f"not a key of the trash: {ascii(key)[:120]}", hint="list it with `cortext restore`")
        self._trash.find(key)
        with self._locked(session_id, new=True):
            if self._find(session_id) is not None:
                raise SessionExists(
                    f"there is a session {session_id} again",
                    kept="both are unchanged",
                    hint="delete the one that is there, then restore",
                )
            self._trash.take_back(key, self._may_lie)
        return self.get(session_id)

    def close(self) -> None:
        """Nothing to do: files are closed after each use."""

    def check(self, session_id: str) -> list[Damage]:
        place = self._place(session_id)
        return [*self._load(place).damage, *self._settled(place).damage]

    @fsio.told
    def compact(self, session_id: str, before: int) -> int:
        """See base.Compacts. Only layouts with an archive can."""
        with self._locked(session_id):
            place = self._place(session_id)
            if not place.archive:
                raise UsageError(f"a {self.name} session has no archive", kept="everything, unchanged")
            self._open_log(place).close()  # as an append would: a torn end is set aside
            if archive.exists(place.archive):
                OpenLog(place.archive, lambda _: b"").close()
            # Not `check`: it takes a torn line for one that the holder of the lock, now us, is writing.
            damage = [*self._load(place).damage, *self._survey(place).damage]
            if damage:
                raise DamagedData(
                    f"session {session_id} is damaged ({damage[0].reason})",
                    kept="everything, unchanged",
                    hint=f"run `cortext repair {session_id}` first",
                )
            moved = archive.compact(place.archive, place.log, before, numbered=bool(self._line_prefix(0, place)))
            self._positions.pop(place.log, None)
            if moved:
                self._update(place, Change())
        return moved

    @fsio.told
    def settle(self, session_id: str) -> None:
        """See base.Settles. A long log is read only from where the metadata ends."""
        if not self.counted:
            return
        with self._locked(session_id):
            place = self._place(session_id)
            metadata = self._load(place)
            last = tail(place.log, 1, FileStore._first_seq(self, place))
            if metadata.damage or not last:
                return
            fields = metadata.fields
            count, active = number_field(fields, "message_count"), metadata.session.last_active
            if count == last[0].seq + 1 and active >= last[0].timestamp:
                return
            tokens = number_field(fields, "token_count")
            if os.stat(place.log).st_size < SHORT_LOG or not 0 < count <= last[0].seq:
                count = tokens = 0
            for message in FromSequence(self._read(place, count, outline=True), count):
                count += 1
                tokens += message.tokens or 0
                active = max(active, clock.normalise(message.timestamp))
            counts = {"message_count": count, "token_count": tokens, "last_active": active}
            if "archive_count" in fields:
                counts["current_count"] = count - number_field(fields, "archive_count")
            save_fields(place.metadata, {**fields, **counts}, aside=self.control)

    @fsio.told
    def rewrite(self, session_id: str, transform: Transform) -> int:
        """See base.Rewrites."""
        with self._locked(session_id):
            place = self._place(session_id)
            changed = rewrite(place.log, transform) + (rewrite(place.archive, transform) if place.archive else 0)
            self._positions.pop(place.log, None)
            if place.metadata != place.log:
                changed += rewrite_fields(place.metadata, transform)
        return changed

    @fsio.told
    def repair(self, session_id: str, *, dry_run: bool = False) -> RepairReport:
        with self._locked(session_id):
            place = self._place(session_id)
            metadata = self._load(place)
            report = RepairReport(
                session=session_id,
                damage=[*metadata.damage],
                kept_messages=0,
                quarantined_bytes=0,
                quarantine="",
                changed=False,
                dry_run=dry_run,
            )
            first, before = 0, ""
            for path in (place.archive, place.log) if archive.exists(place.archive) else (place.log,):
                found = mend.survey(path, first, before) if dry_run else mend.mend(path, first, before)
                report.damage += found.damage
                report.quarantined_bytes += found.quarantined
                if found.quarantined and not report.quarantine:
                    report.quarantine = quarantine.path_of(path)
                first, before = archive.before_log(place.archive, place.log)
            aside = sum(item.length for item in metadata.damage)
            if aside:
                report.quarantined_bytes += aside
                report.quarantine = quarantine.path_of(place.log)
            if metadata.damage and not dry_run:
                self._update(place, Change())
            report.kept_messages = self._survey(place).messages
            report.changed = bool(report.damage) and not dry_run
            self._positions.pop(place.log, None)
        return report

    # ── the parts that these are made of ─────────────────────────────────────────────────────────────

    def _place(self, session_id: str) -> Place:
        place = self._find(check_id(session_id))
        if place is None:
            raise _not_found(session_id)
        self.folders.check(os.path.dirname(place.log))
        return place

    def _known_place(self, session_id: str, lock: str) -> Place:
        """The same for one that we had open before: two looks at the disk and no path to build."""
        way = self._ways.get(session_id)
        if way is not None:
            self.folders.check(way.folder)
            if os.path.lexists(way.place.log):
                return way.place
            del self._ways[session_id]
        place = self._place(session_id)
        self._ways[session_id] = Way(place, os.path.dirname(place.log), lock, os.path.dirname(lock))
        return place

    def _lock_path(self, session_id: str) -> str:
        return os.path.join(self.control, "locks", f"{check_id(session_id)}.lock")

    def _locked(self, session_id: str, timeout: float | None = None, *, new: bool = False) -> Locked:
        return Locked(self, session_id, timeout, new)

    def _ensure_control(self) -> None:
        """The folder for locks and trash; it keeps itself out of git."""
        ignore = os.path.join(self.control, ".gitignore")
        if not os.path.exists(ignore):
            fsio.ensure_folder(self.control)
            fsio.replace_file(ignore, [b"# locks and trash of this machine: never in git\n*\n"])

    def _metadata(self, place: Place) -> Session:
        return msgspec.structs.replace(self._load(place).session, store=self.name, path=place.whole)

    def _full(self, place: Place) -> Session:
        """The session with everything that comes from the log."""
        metadata = self._load(place)
        survey = self._settled(place)
        session = metadata.session
        created = session.created_at or survey.first or clock.from_epoch(os.stat(place.whole).st_mtime)
        return msgspec.structs.replace(
            session,
            message_count=survey.messages,
            token_count=survey.tokens,
            straight=survey.straight,
            created_at=created,
            last_active=max(session.last_active, survey.last) or created,
            store=self.name,
            path=place.whole,
            damage=len(metadata.damage) + len(survey.damage),
            leased=self._held(place) if self.leased else None,
        )

    def _read(self, place: Place, start: int, *, outline: bool = False, brief: bool = False) -> Reading:
        if place.archive:
            return archive.ArchivedReading(place.archive, place.log, start, outline=outline, brief=brief)
        seek = partial(offset_of, seq=start)
        return JournalReading(place.log, seek=seek, outline=outline, brief=brief)

    def _survey(self, place: Place) -> Survey:
        reading = self._read(place, 0, outline=True)
        count, tokens, first, last, straight = 0, 0, "", "", True
        for message in reading:
            count += 1
            tokens += message.tokens or 0
            if message.timestamp > last:
                last = message.timestamp
            first = first or message.timestamp
            if message.parent or message.partial or message.aside or message.seq != count - 1:
                straight = False
        if last and not clock.normalise(last):  # not a moment: it must not hide those that are
            moments = (clock.normalise(message.timestamp) for message in self._read(place, 0, outline=True))
            last = max(moments, default="")
        return Survey(count, tokens, clock.normalise(first), clock.normalise(last), straight, reading.damage)

    def _held(self, place: Place) -> bool:
        return locks.read_holder(self._lock_path(place.session_id)) is not None

    def _settled(self, place: Place) -> Survey:
        """The survey, without a last line that somebody is writing at this moment."""
        survey = self._survey(place)
        while torn := [item for item in survey.damage if item.kind == TORN]:
            if self._held(place):
                return msgspec.structs.replace(survey, damage=[item for item in survey.damage if item.kind != TORN])
            before, survey = survey, self._survey(place)  # who wrote that line may be done with it by now
            if torn == [item for item in survey.damage if item.kind == TORN] and survey.messages == before.messages:
                break
        return survey

    def _update(self, place: Place, change: Change) -> Session:
        metadata = self._load(place)
        full = self._full(place)
        changed = change.apply(full)
        for item in metadata.damage:
            if item.length:
                self._set_aside(place, item)
        self._save(place, changed, metadata.fields)
        # The log did not change under our lock: only damage that was just mended is worth another look.
        return self._full(place) if metadata.damage else changed

    def _set_aside(self, place: Place, item: Damage) -> None:
        """Keep the bytes of a metadata file that cannot be read: it is about to be replaced."""
        path = os.path.join(os.path.dirname(place.metadata), item.file)
        if item.length > MAX_LINE:  # no metadata at all: moved aside, for a copy could fill the disk
            fsio.move(path, f"{path}.{clock.now().replace(':', '')}.aside")
            return
        descriptor = fsio.open_file(path, os.O_RDONLY)
        try:
            quarantine.keep(place.log, descriptor, [(item.offset, item.length, item.reason)], name=item.file)
        finally:
            os.close(descriptor)

    def _open_log(self, place: Place) -> OpenLog:
        def encode_line(message: Message) -> bytes:
            return encode_message(message, self._line_prefix(message.seq, place))

        known = self._positions.get(place.log)
        return OpenLog(place.log, encode_line, first_seq=partial(self._first_seq, place), known=known)

    def _first_seq(self, place: Place) -> int:
        """The number that the log begins with; asked whenever the log is not as we left it."""
        first = first_number(place.log)
        return archive.first_seq(place.archive, place.log) if first < 0 else first


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


def _not_found(session_id: str) -> SessionNotFound:
    return SessionNotFound(f"no session {session_id}", hint="see what there is with `cortext list`")


class FromSequence:
    """A reading without the messages before a number (a block may begin before it)."""

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
