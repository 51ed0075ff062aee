"""An assistant's files besides its sessions: `memory/memories.jsonl`, `chats/<chat>.json`, `telegram/<bot>.jsonl`.

They are small append-only files of records: one JSON object per line, without sequence numbers or an archive. An
unreadable line is skipped and counted, and it stays in the file.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from cortext.errors import SessionBusy, memory_not_found
from cortext.io import durable, locks
from cortext.io.jsonl import blocks, split_lines
from cortext.model import clock, ids
from cortext.model.ids import check_id, is_id
from cortext.store.assistant import KINDS, Fact, PendingUpdate, identity
from cortext.store.files.fields import text_field
from cortext.store.files.lines import BadLine, decode_value, encode
from cortext.store.files.metadata import load_fields, save_fields

# Seconds. Messengers resend an update for a day at most: older update numbers can be dropped.
UPDATE_RETENTION = 2 * 86_400.0
SHRINK_SIZE = 4 << 20  # a journal above this size is rewritten without the updates that are done


class RecordFile:
    """One such file, which many processes may use. Reading again reads only what is new."""

    def __init__(self, path: str, *, lock_timeout: float = 5.0) -> None:
        self.path = path
        self.unreadable = 0
        self._lock_timeout = lock_timeout
        self._records: list[dict[str, Any]] = []
        self._inode, self._read_to = -1, 0
        self._mutex = threading.Lock()
        self._open_file: durable.AppendFile | None = None

    def lock(self) -> locks.Lock:
        """Return the lock of this file, not acquired."""
        folder, name = os.path.split(self.path)
        return locks.Lock(os.path.join(folder, f".{name}.lock"))

    def append(self, *records: dict[str, Any]) -> None:
        """Append all records or none of them; they are durable when this returns."""
        lines = b"".join(encode(record) + b"\n" for record in records)
        if not lines:
            return
        if self._open_file is not None:
            self._open_file.append(lines)
            return
        durable.ensure_folder(os.path.dirname(self.path))
        with self.lock() as lock:
            lock.acquire(self._lock_timeout, self.path)
            durable.append_once(self.path, lines)

    def hold(self) -> None:
        """Keep the file open, for a process that is its only writer: an append then needs one flush and no lock."""
        self.close()
        durable.ensure_folder(os.path.dirname(self.path))
        file = durable.AppendFile(self.path)
        if file.end and os.pread(file.descriptor, 1, file.end - 1) != b"\n":
            file.append(b"\n")  # a record that a crash left incomplete must not run into the next one
        self._open_file = file

    def close(self) -> None:
        """Close the file that `hold` opened."""
        if self._open_file is not None:
            self._open_file.close()
            self._open_file = None

    def rewrite(self, records: Iterable[dict[str, Any]]) -> None:
        """Replace all records atomically. The caller ensures that no needed record is left out."""
        durable.ensure_folder(os.path.dirname(self.path))
        with self.lock() as lock:
            lock.acquire(self._lock_timeout, self.path)
            durable.replace_file(self.path, (encode(record) + b"\n" for record in records))
        if self._open_file is not None:
            self.hold()

    def read(self) -> list[dict[str, Any]]:
        """Return every record, in order. It is the same list each time, as long as the file has only grown."""
        with self._mutex:
            return self._read_new()

    def _read_new(self) -> list[dict[str, Any]]:
        try:
            descriptor = durable.open_file(self.path, os.O_RDONLY)
        except (FileNotFoundError, NotADirectoryError):
            self._reset(-1)
            return self._records
        try:
            status = os.fstat(descriptor)
            if status.st_ino != self._inode or status.st_size < self._read_to:
                self._reset(status.st_ino)
            for _, block, length in blocks(descriptor, self._read_to, status.st_size):
                # A last line without a newline may still be being written: it is left for the next read.
                if block is not None and not block.endswith(b"\n"):
                    break
                self._decode(block or b"")
                self._read_to += length
        finally:
            os.close(descriptor)
        return self._records

    def _reset(self, inode: int) -> None:
        self._records, self._inode, self._read_to, self.unreadable = [], inode, 0, 0

    def _decode(self, block: bytes) -> None:
        for raw in split_lines(block):
            if not raw.strip():
                continue
            try:
                record = decode_value(raw)
            except BadLine:
                record = None
            if isinstance(record, dict):
                self._records.append(record)
            else:
                self.unreadable += 1


class FileFacts:
    """See assistant.Facts: one line per fact, and one for each fact that was forgotten."""

    def __init__(self, path: str) -> None:
        self._file = RecordFile(path)
        self._known: dict[str, Fact] = {}
        self._records: list[dict[str, Any]] = []  # what `_known` was built from, and how many of them
        self._applied = 0
        self._mutex = threading.Lock()  # several chats of one process may add facts at once

    def all(self) -> list[Fact]:
        with self._mutex:
            return self._all()

    def _all(self) -> list[Fact]:
        records = self._file.read()
        if records is not self._records or len(records) < self._applied:
            self._known, self._records, self._applied = {}, records, 0
        facts = self._known
        for record in records[self._applied :]:
            name = record.get("id")
            if not isinstance(name, str):
                continue
            if record.get("type") == "forgotten":
                facts.pop(name, None)
            elif isinstance(record.get("text"), str) and record["text"]:
                facts[name] = _fact(record)
        self._applied = len(records)
        return list(facts.values())

    def add(self, fact: Fact) -> Fact:
        same = identity(fact)
        for known in self.all():
            if identity(known) == same:
                return known
        stored = msgspec.structs.replace(
            fact, id=fact.id or ids.new_session_id("mem_"), created_at=fact.created_at or clock.now()
        )
        self._file.append({"type": "memory", **msgspec.to_builtins(stored)})
        return stored

    def forget(self, fact_id: str, *, by: str = "") -> Fact:
        known = next((fact for fact in self.all() if fact.id == fact_id), None)
        if known is None:
            raise memory_not_found(fact_id)
        self._file.append({"type": "forgotten", "id": fact_id, "timestamp": clock.now(), "by": by})
        return known


def _fact(record: dict[str, Any]) -> Fact:
    """Return the fact of a record; wrong types are tolerated, because the file may have been edited by hand."""
    texts = {name: text_field(record, name) for name in Fact.__struct_fields__}
    if texts["kind"] not in KINDS:
        texts["kind"] = KINDS[0]
    texts["expires_at"] = clock.normalise(texts["expires_at"])
    return Fact(**texts)


class FileChats:
    """See assistant.Chats: a small file per chat. That of the command line is `current.json` beside its sessions."""

    def __init__(self, folder: str, command_line: str, current: str) -> None:
        self._folder = folder
        self._command_line, self._current = command_line, current

    def _path(self, chat: str) -> str:
        return self._current if chat == self._command_line else os.path.join(self._folder, f"{check_id(chat)}.json")

    def active(self, chat: str) -> str | None:
        fields, _ = load_fields(self._path(chat))
        if "session_id" not in fields:
            return None
        session_id = text_field(fields, "session_id")
        return session_id if is_id(session_id) else ""

    def trouble(self, chat: str) -> str:
        path = self._path(chat)
        fields, damage = load_fields(path)
        if damage and os.path.lexists(path):
            return f"{path} is damaged ({damage[0].reason})"
        session_id = fields.get("session_id", "")
        named = isinstance(session_id, str) and (not session_id or is_id(session_id))
        return "" if named else f"{path} names no session: {ascii(session_id)[:60]}"

    def activate(self, chat: str, session_id: str) -> None:
        if session_id:
            check_id(session_id)
        path = self._path(chat)
        durable.ensure_folder(os.path.dirname(path))
        if self.trouble(chat):
            durable.replace_file(
                f"{path}.damaged", [durable.read_text(path, "surrogateescape").encode("utf-8", "surrogateescape")]
            )
        fields, _ = load_fields(path)
        save_fields(path, {**fields, "session_id": session_id})


class FileUpdates:
    """See assistant.Updates: a journal that one process at a time may use; a lock ensures it."""

    def __init__(self, path: str) -> None:
        self._file = RecordFile(path)
        folder, name = os.path.split(path)
        self._lock = locks.Lock(os.path.join(folder, f".{name}.bot.lock"))
        self._seen: dict[int, str] = {}
        self._open: dict[int, PendingUpdate] = {}
        self._mutex = threading.Lock()  # threads of this process answer several chats at once

    def hold(self) -> None:
        """Become the one process that serves this bot, and read what its predecessor left."""
        durable.ensure_folder(os.path.dirname(self._file.path))
        try:
            self._lock.acquire(0, "this bot")
        except SessionBusy as error:
            raise SessionBusy(
                error.message.replace("is being written by", "is served by"),
                kept="nothing was changed",
                hint="stop the other process first",
            ) from None
        self._seen, self._open = {}, {}
        self._file.hold()
        records = self._file.read()
        for record in records:
            self._replay(record)
        if len(records) > len(self._open) and self._file.path and _size(self._file.path) > SHRINK_SIZE:
            self._shrink()

    def release(self) -> None:
        """Allow another process to serve the bot."""
        self._file.close()
        self._lock.release()

    def take(self, arrived: Sequence[tuple[int, str, dict[str, Any]]]) -> list[PendingUpdate]:
        fresh: list[PendingUpdate] = []
        numbers: set[int] = set()
        with self._mutex:
            for update, chat, body in arrived:
                if update not in self._seen and update not in numbers:
                    numbers.add(update)
                    fresh.append(PendingUpdate(update=update, chat=chat, at=clock.now(), body=body))
            self._file.append(*map(_taken_record, fresh))
            for taken in fresh:
                self._seen[taken.update] = taken.at
                self._open[taken.update] = taken
        return fresh

    def sent(self, update: int, message: int) -> None:
        with self._mutex:
            self._file.append({"type": "sent", "update": update, "message": message})
            self._open[update].sent.append(message)

    def note(self, update: int, facts: Mapping[str, Any]) -> None:
        with self._mutex:
            self._file.append({"type": "note", "update": update, "facts": dict(facts)})
            self._open[update].facts.update(facts)

    def done(self, update: int) -> None:
        with self._mutex:
            self._file.append({"type": "done", "update": update, "at": clock.now()})
            self._open.pop(update, None)
            if not self._open and _size(self._file.path) > SHRINK_SIZE:
                self._shrink()

    def waiting(self) -> list[PendingUpdate]:
        return list(self._open.values())

    def _replay(self, record: dict[str, Any]) -> None:
        update = record.get("update")
        if not isinstance(update, int):
            return
        kind = record.get("type")
        if kind == "taken":
            taken = PendingUpdate(
                update=update,
                chat=text_field(record, "chat"),
                at=text_field(record, "at"),
                body=record["body"] if isinstance(record.get("body"), dict) else {},
            )
            self._seen[update] = taken.at
            if is_id(taken.chat) and taken.body:
                self._open[update] = taken
        elif kind == "seen":
            self._seen[update] = text_field(record, "at")
        elif kind == "done":
            self._open.pop(update, None)
        elif update in self._open:
            if kind == "sent" and isinstance(record.get("message"), int):
                self._open[update].sent.append(record["message"])
            elif kind == "note" and isinstance(record.get("facts"), dict):
                self._open[update].facts.update(record["facts"])

    def _shrink(self) -> None:
        """Rewrite the journal: recent update numbers, and everything about updates that are not answered yet."""
        oldest = clock.from_epoch(time.time() - UPDATE_RETENTION)
        self._seen = {update: at for update, at in self._seen.items() if at >= oldest or update in self._open}
        self._file.rewrite(self._current_records())

    def _current_records(self) -> Iterator[dict[str, Any]]:
        for update, at in self._seen.items():
            taken = self._open.get(update)
            if taken is None:
                yield {"type": "seen", "update": update, "at": at}
                continue
            yield _taken_record(taken)
            for message in taken.sent:
                yield {"type": "sent", "update": update, "message": message}
            if taken.facts:
                yield {"type": "note", "update": update, "facts": taken.facts}


def _taken_record(taken: PendingUpdate) -> dict[str, Any]:
    return {"type": "taken", "update": taken.update, "chat": taken.chat, "at": taken.at, "body": taken.body}


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
