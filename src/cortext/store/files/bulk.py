"""Create many sessions: each is built in `incoming/`, flushed while the next one is built, and published by a rename.

A session costs five flushes instead of sixteen. A killed process leaves no incomplete session, only a folder in
`incoming/`, which the next bulk import removes. Locks are held only during the renames.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack

import msgspec

from cortext.errors import CortextError, SessionBusy, session_exists
from cortext.io import durable, locks, new_files
from cortext.model import clock
from cortext.model.ids import check_id
from cortext.model.message import Message
from cortext.model.session import Change, Session, check_status
from cortext.store.capabilities import Draft, Publication
from cortext.store.files.layout_paths import INCOMING, native_copy, workspace_files
from cortext.store.files.lines import encode_message, encode_pretty
from cortext.store.files.log import complete, is_repeat
from cortext.store.files.metadata import MetadataCodec
from cortext.store.files.store import FileStore

FLUSHING_AT_ONCE = 4  # sessions that are flushed while the next one is built


class NewLog:
    """Numbers the messages of a new session from 0, encodes their lines, and counts what the metadata needs."""

    def __init__(self) -> None:
        self.count = 0
        self.asides = 0
        self.tokens = 0
        self.last = ""  # the latest timestamp of a message
        self._previous: Message | None = None

    def lines(self, messages: Sequence[Message]) -> bytes:
        """Return the lines of the next messages."""
        lines: list[bytes] = []
        for message in messages:
            if self._previous is not None and is_repeat(message, self._previous):
                continue
            stored = self._previous = complete(message, self.count)
            lines.append(encode_message(stored))
            self.count += 1
            self.asides += stored.aside
            self.tokens += stored.tokens or 0
            self.last = max(self.last, stored.timestamp)
        return b"".join(lines)


class FileDraft:
    """See capabilities.Draft."""

    def __init__(self, folder: str, session_id: str, codec: MetadataCodec) -> None:
        self.session_id = session_id
        self.later = new_files.Later()
        self.created = ""
        self.flushed: Future[None] | None = None
        self.files = workspace_files(folder, session_id)
        self.copy = native_copy(self.files.path)
        self._codec = codec
        self._log = NewLog()

    def write(self, batches: Iterable[Sequence[Message]]) -> None:
        new_files.new_file(self.files.log, map(self._log.lines, batches), self.later)

    def finish(self, session: Session, change: Change) -> None:
        check_status(session.status)
        self.created = clock.normalise(session.created_at) or clock.now()
        finished = change.apply(
            msgspec.structs.replace(
                session,
                created_at=self.created,
                last_active=max(clock.normalise(session.last_active) or self.created, self._log.last),
                message_count=self._log.count - self._log.asides,
                aside_count=self._log.asides,
                token_count=self._log.tokens,
            )
        )
        metadata = encode_pretty(self._codec.encode(finished, {}))
        new_files.new_file(self.files.metadata, [metadata], self.later)


class FileBulk:
    """See capabilities.Bulk."""

    def __init__(self, store: FileStore, codec: MetadataCodec) -> None:
        self._store = store
        self._codec = codec
        self._drafts: dict[str, FileDraft] = {}
        self._flusher = ThreadPoolExecutor(FLUSHING_AT_ONCE)
        self._days: set[str] = set()
        self._incoming = os.path.join(store.control, INCOMING)
        name = f"{os.getpid()}-{time.time_ns():x}"
        self._folder = os.path.join(self._incoming, name)
        self._lock = locks.Lock(f"{self._folder}.lock")
        self._prepared = False

    @durable.reports_os_errors
    def begin(self, session_id: str) -> FileDraft:
        check_id(session_id)
        if not self._prepared:
            self._prepare()
        if session_id in self._drafts or self._store.locate(session_id) is not None:
            raise session_exists(session_id)
        draft = FileDraft(self._folder, session_id, self._codec)
        self._drafts[session_id] = draft
        new_files.ensure_folder(os.path.dirname(draft.copy), draft.later)
        return draft

    def drop(self, draft: Draft) -> None:
        dropped = self._drafts.pop(draft.session_id, None)
        if dropped is not None:
            dropped.later.forget()  # waits for a flush that has begun
            _try_to_remove(dropped.files.path)

    def ready(self, draft: Draft) -> None:
        finished = self._drafts[draft.session_id]
        finished.flushed = self._flusher.submit(finished.later.flush)

    @durable.reports_os_errors
    def publish(self, done: Callable[[Sequence[str]], None]) -> Publication:
        published = Publication([], [], {})
        ready = list(self._flushed(published))
        with ExitStack() as held:
            # In the order of the ids: two imports that want the same locks cannot deadlock.
            for draft in sorted(ready, key=lambda draft: draft.session_id):
                try:
                    held.enter_context(self._store.locked(draft.session_id, new=True))
                except SessionBusy as error:
                    published.failed[draft.session_id] = error
            try:
                self._move_into_place([draft for draft in ready if draft.session_id not in published.failed], published)
                done(published.made)
            finally:
                for draft in list(self._drafts.values()):
                    self.drop(draft)
        return published

    def _flushed(self, published: Publication) -> Iterator[FileDraft]:
        """Return the drafts that are on disk. A failed flush affects only its own session."""
        for draft in list(self._drafts.values()):
            if draft.flushed is None:
                continue  # not complete yet
            try:
                draft.flushed.result()
            except OSError as error:
                published.failed[draft.session_id] = durable.write_failed(error, draft.files.path, "nothing of it")
                self.drop(draft)
            else:
                yield draft

    def _move_into_place(self, drafts: list[FileDraft], published: Publication) -> None:
        """Move every draft to its session's path, then make the new names durable."""
        later = new_files.Later()
        for draft in drafts:
            path = self._store.new_files(Session(id=draft.session_id, created_at=draft.created)).path
            # Another process may have created the session first, or an unrelated folder has this name.
            if self._store.locate(draft.session_id) is not None or os.path.lexists(path):
                published.taken.append(draft.session_id)
                continue
            try:
                self._ensure_day(os.path.dirname(path))
                durable.move(draft.files.path, path, later.folder)
            except CortextError as error:
                published.failed[draft.session_id] = error
            else:
                published.made.append(draft.session_id)
        later.flush()

    def _ensure_day(self, day: str) -> None:
        self._store.folders.check(day)
        if day not in self._days:
            durable.ensure_folder(day, self._store.root)
            self._days.add(day)

    def close(self) -> None:
        self._flusher.shutdown(cancel_futures=True)
        for draft in list(self._drafts.values()):
            self.drop(draft)
        if self._prepared:
            _try_to_remove(self._folder)
            self._lock.sweep()
            self._prepared = False
        self._sweep()

    def _prepare(self) -> None:
        """Create this import's own folder to build in."""
        self._store.folders.check(self._incoming)
        self._store.ensure_control()
        self._lock.acquire(self._store.lock_timeout, "the folder for new sessions")
        self._prepared = True
        new_files.ensure_folder(self._folder, new_files.Later())

    def _sweep(self) -> None:
        """Remove the folders of imports that were killed: nobody holds their locks."""
        try:
            self._store.folders.check(self._incoming)
            with os.scandir(self._incoming) as entries:
                lock_paths = [entry.path for entry in entries if entry.name.endswith(".lock")]
            for path in lock_paths:
                lock = locks.Lock(path)
                try:
                    if lock.acquire(0.0, "the folder of another import", make=False):
                        _try_to_remove(path.removesuffix(".lock"))
                        lock.sweep()
                except SessionBusy:
                    continue
            durable.calls.rmdir(self._incoming)
        except (OSError, CortextError):
            pass  # the folder is missing, or another import is using it


def _try_to_remove(path: str) -> None:
    try:
        durable.remove_tree(path)
    except CortextError:
        pass  # the next import removes it
