"""A store in memory for the tests of higher layers: the same protocol without a disk.

It belongs to one process, so its lock excludes other threads, and nothing can be damaged.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec

from cortext.errors import (
    SessionBusy,
    invalid_trash_key,
    not_in_trash,
    session_exists,
    session_exists_again,
    session_not_found,
)
from cortext.model import clock
from cortext.model.ids import check_id, is_id
from cortext.model.message import Message
from cortext.model.session import Change, Session, check_status
from cortext.store.base import Damage, RepairReport, Trashed, Writer
from cortext.store.files.lines import decode_line, decode_value, encode_annotation, encode_message
from cortext.store.files.log import complete, is_repeat


class _Kept:
    """One session: its metadata, its log (encoded, so that stored messages cannot be mutated) and its annotations."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.lines: list[bytes] = []
        self.records: list[bytes] = []
        self.archived = 0
        self.held_since = ""

    def messages(self) -> list[Message]:
        return [msgspec.convert(decode_line(line), Message, from_attributes=True) for line in self.lines]


class _Listed:
    """A Reading of messages that are already in memory."""

    def __init__(self, messages: list[Message]) -> None:
        self.damage: list[Damage] = []
        self._messages = messages

    def __iter__(self) -> Iterator[Message]:
        return iter(self._messages)


class MemoryStore:
    """See store.base: Store, Compacts and Annotates."""

    def __init__(self, *, lock_timeout: float = 5.0) -> None:
        self.name = "memory"
        self.lock_timeout = lock_timeout
        self._kept: dict[str, _Kept] = {}
        self._released = threading.Condition()
        self._trash: dict[str, tuple[Trashed, _Kept]] = {}

    def create(self, session: Session) -> Session:
        check_id(session.id)
        check_status(session.status)
        if session.id in self._kept:
            raise session_exists(session.id)
        created = clock.normalise(session.created_at) or clock.now()
        last_active = clock.normalise(session.last_active) or created
        self._kept[session.id] = _Kept(
            _copy(msgspec.structs.replace(session, created_at=created, last_active=last_active, store=self.name))
        )
        return self.get(session.id)

    def get(self, session_id: str) -> Session:
        kept = self._find(session_id)
        messages = kept.messages()
        return msgspec.structs.replace(
            _copy(kept.session),
            message_count=len(messages),
            token_count=sum(message.tokens or 0 for message in messages),
            last_active=max([kept.session.last_active, *(message.timestamp for message in messages)]),
        )

    def peek(self, session_id: str) -> Session:
        return self.get(session_id)

    def sessions(self) -> Iterator[Session]:
        for session_id in list(self._kept):
            yield self.get(session_id)

    def read(self, session_id: str, start: int = 0) -> _Listed:
        return _Listed([message for message in self._find(session_id).messages() if message.seq >= start])

    def tail(self, session_id: str, count: int) -> list[Message]:
        messages = self._find(session_id).messages()
        return messages[-count:] if count > 0 else []

    @contextmanager
    def open(self, session_id: str, timeout: float | None = None) -> Iterator[Writer]:
        kept = self._find(session_id)
        wait = self.lock_timeout if timeout is None else timeout
        with self._released:  # another thread may hold it
            if not self._released.wait_for(lambda: not kept.held_since, wait):
                holder = f"process {os.getpid()} on {os.uname().nodename} since {kept.held_since}"
                raise SessionBusy(
                    f"session {session_id} is being written by {holder}",
                    kept="nothing was changed",
                    hint=f"waited {wait:g} s; try again when it is done",
                )
            kept.held_since = clock.now()
        try:
            yield _MemoryWriter(self, kept)
        finally:
            with self._released:
                kept.held_since = ""
                self._released.notify_all()

    def append(self, session_id: str, *messages: Message) -> list[Message]:
        with self.open(session_id) as writer:
            return writer.append(*messages)

    def update(self, session_id: str, change: Change) -> Session:
        with self.open(session_id) as writer:
            return writer.update(change)

    def delete(self, session_id: str) -> Trashed:
        with self.open(session_id):
            item = Trashed(
                key=f"{session_id}.{time.time_ns():x}",
                session_id=session_id,
                deleted_at=clock.now(),
                origin=session_id,
            )
            self._trash[item.key] = (item, self._kept.pop(session_id))
        return item

    def trash(self) -> Iterator[Trashed]:
        return (item for item, _ in reversed(list(self._trash.values())))

    def restore(self, key: str) -> Session:
        session_id, _, stamp = key.rpartition(".")
        if not is_id(session_id) or not is_id(stamp):
            raise invalid_trash_key(key)
        if key not in self._trash:
            raise not_in_trash(key)
        if session_id in self._kept:
            raise session_exists_again(session_id)
        self._kept[session_id] = self._trash.pop(key)[1]
        return self.get(session_id)

    def close(self) -> None:
        """Do nothing: there are no connections."""

    def check(self, session_id: str) -> list[Damage]:
        self._find(session_id)
        return []

    def repair(self, session_id: str, *, dry_run: bool = False) -> RepairReport:
        return RepairReport(
            session=session_id,
            damage=[],
            kept_messages=len(self._find(session_id).lines),
            quarantined_bytes=0,
            quarantine="",
            changed=False,
            dry_run=dry_run,
        )

    def compact(self, session_id: str, before: int) -> int:
        """See capabilities.Compacts; this only counts the archived messages."""
        with self.open(session_id):
            kept = self._find(session_id)
            moved = max(0, min(before, len(kept.lines)) - kept.archived)
            kept.archived += moved
        return moved

    def annotate(self, session_id: str, *records: dict[str, object]) -> None:
        """See capabilities.Annotates."""
        lines = [encode_annotation(record) for record in records]
        with self.open(session_id):
            self._find(session_id).records.extend(lines)

    def annotations(self, session_id: str) -> Iterator[dict[str, object]]:
        """See capabilities.Annotates."""
        return (decode_value(line) for line in list(self._find(session_id).records))

    def _find(self, session_id: str) -> _Kept:
        kept = self._kept.get(check_id(session_id))
        if kept is None:
            raise session_not_found(session_id)
        return kept


class _MemoryWriter:
    """See base.Writer."""

    def __init__(self, store: MemoryStore, kept: _Kept) -> None:
        self._store = store
        self._kept = kept

    def append(self, *messages: Message) -> list[Message]:
        stored = self._kept.messages()
        before, given = len(stored), 0
        for message in messages:
            if stored and is_repeat(message, stored[-1]):
                given += len(stored) == before
                continue
            stored.append(complete(message, len(stored)))
        self._kept.lines += [encode_message(message) for message in stored[before:]]
        return stored[before - given :]

    def session(self) -> Session:
        return _copy(self._kept.session)

    def update(self, change: Change) -> Session:
        session_id = self._kept.session.id
        self._kept.session = _copy(change.apply(self._store.get(session_id)))
        return self._store.get(session_id)


def _copy(session: Session) -> Session:
    """Return a deep copy."""
    return msgspec.convert(msgspec.to_builtins(session), Session)
