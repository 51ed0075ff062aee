"""Write to a session: its lock, the lock together with a writer, and the writer itself."""

from __future__ import annotations

import os

from cortext.io import durable, locks
from cortext.model.message import Message
from cortext.model.session import Change, Session
from cortext.store.files.layout import FileLayout
from cortext.store.files.layout_paths import SessionFiles
from cortext.store.files.log import OpenLog


class SessionLock:
    """The lock of a session as a context manager. It is a class, because a generator costs as much as the lock."""

    __slots__ = ("_lock", "_new", "_session_id", "_store", "_timeout")

    def __init__(self, store: FileLayout, session_id: str, timeout: float | None, new: bool) -> None:
        self._store, self._session_id, self._timeout, self._new = store, session_id, timeout, new

    def __enter__(self) -> locks.Lock:
        store, session_id = self._store, self._session_id
        paths = store.opened_paths.get(session_id) if isinstance(session_id, str) else None
        lock = self._lock = locks.Lock(paths.lock if paths else store.lock_path(session_id))
        store.folders.check(paths.locks if paths else os.path.dirname(lock.path))
        timeout = store.lock_timeout if self._timeout is None else self._timeout
        if not lock.acquire(timeout, f"session {session_id}", make=False):
            if not self._new:
                store.files_of(session_id)  # an unknown session must not leave a lock file behind
            store.ensure_control()
            lock.acquire(timeout, f"session {session_id}")
        if not self._new:
            try:
                store.before_change(session_id)
            except BaseException:
                lock.release()
                raise
        return lock

    def __exit__(self, *error: object) -> None:
        try:
            self._store.after_change(self._session_id)
        finally:
            self._lock.release()
        # Tells the list of sessions what changed. It is only a hint, so it is not flushed.
        durable.note(self._store.changes_path, self._session_id)


class OpenWriter:
    """The lock of a session and a writer to it, as a context manager."""

    __slots__ = ("_session_id", "_session_lock", "_store", "_writer")

    def __init__(self, store: FileLayout, session_id: str, timeout: float | None) -> None:
        self._store, self._session_id = store, session_id
        self._session_lock = SessionLock(store, session_id, timeout, False)

    def __enter__(self) -> FileSessionWriter:
        lock = self._session_lock.__enter__()
        try:
            self._writer = FileSessionWriter(self._store, self._store.opened_files(self._session_id, lock.path))
        except BaseException:
            self._session_lock.__exit__()
            raise
        return self._writer

    def __exit__(self, *error: object) -> None:
        try:
            self._writer.close()
        finally:
            self._session_lock.__exit__()


class FileSessionWriter:
    """A session held open: see base.Writer."""

    def __init__(self, store: FileLayout, files: SessionFiles) -> None:
        self._store = store
        self._files = files
        self._log: OpenLog | None = None

    @durable.reports_os_errors
    def append(self, *messages: Message) -> list[Message]:
        if self._log is None:
            self._log = self._store.open_log(self._files)
        return self._log.append(messages)

    @durable.reports_os_errors
    def append_raw(self, lines: list[bytes]) -> None:
        """Append records that are not messages."""
        if self._log is None:
            self._log = self._store.open_log(self._files)
        self._log.append_raw(lines)

    def session(self) -> Session:
        return self._store.metadata(self._files)

    @durable.reports_os_errors
    def update(self, change: Change) -> Session:
        self.close()  # some layouts replace the log by a new file
        return self._store.change_metadata(self._files, change)

    def close(self) -> None:
        """Close the log; the next append opens it again."""
        if self._log is not None:
            log, self._log = self._log, None
            position = log.position
            if position is not None:
                self._store.positions[self._files.log] = position
            log.close()
