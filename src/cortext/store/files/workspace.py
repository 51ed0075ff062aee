"""The workspace layout: `conversations/<date>/<id>/.session/{session.json,messages.jsonl}` in a git repo.

The folder of a conversation also contains the user's Markdown. A conversation without `.session/` is plain Markdown and
not a session. Pruned messages are in `archive.jsonl` beside the log.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from cortext.errors import CortextError, UnsafePath, session_exists
from cortext.io import durable
from cortext.model import clock
from cortext.model.ids import check_id
from cortext.model.message import Message, plain
from cortext.model.session import Change, Session
from cortext.model.titles import best_title, is_titled_by_user
from cortext.store.capabilities import Bulk, Left
from cortext.store.files.layout import LOCK_TIMEOUT
from cortext.store.files.layout_paths import (
    CONVERSATIONS,
    SessionFiles,
    in_folder,
    is_workspace_session,
    workspace_files,
)
from cortext.store.files.metadata import Metadata, MetadataCodec, impossible_counts, load_fields, save_fields
from cortext.store.files.repair import Transform
from cortext.store.files.safety_copies import SafetyCopies
from cortext.store.files.store import FileStore

NOTES_HEAD = 4_096  # bytes of the notes in which their heading is looked for
SEARCHES_BEFORE_SCAN = 16  # so many single searches for sessions suggest that the caller wants all of them
CODEC = MetadataCodec(
    constants={"version": "1.0"},
    required={
        "conversation_id": "id",
        "conversation_type": "type",
        "title": "title",
        "status": "status",
        "created_at": "created_at",
        "last_active": "last_active",
        "message_count": "message_count",
        "token_count": "token_count",
        "agent_config": "agent_config",
        "context_summary": "summary",
    },
    optional={
        "aside_count": "aside_count",
        "summary_covers": "summary_covers",
        "summary_by": "summary_by",
        "agent": "agent",
        "continuation": "origin",
    },
)


class WorkspaceStore(FileStore):
    """The sessions in the conversation folders of a workspace."""

    name = "workspace"
    has_counts = True

    def __init__(self, root: str, *, lock_timeout: float = LOCK_TIMEOUT, copies: SafetyCopies | None = None) -> None:
        super().__init__(root, lock_timeout=lock_timeout)
        self.copies = copies
        if copies is not None:
            self.folders.also = copies.folder
        self._conversations = os.path.join(self.root, CONVERSATIONS)
        self._days: dict[str, str] = {}  # from session id to day folder: a hint, checked at every use
        self._searches = 0

    def ids(self) -> Iterator[str]:
        seen: dict[str, str] = {}
        for date in self.folders.names(self._conversations):
            day = os.path.join(self._conversations, date)
            for name in self.folders.names(day):
                # Only one conversation can have an id: `doctor` reports a second one.
                if is_workspace_session(os.path.join(day, name)) and seen.setdefault(name, day) == day:
                    self._days[name] = day
                    yield name
        if self.copies is not None:
            yield from (os.path.basename(path) for path in self.copies.away(seen))

    def locate(self, session_id: str) -> SessionFiles | None:
        files = self._in_tree(session_id)
        if self.copies is None:
            return files
        path = self.copies.view(files.path) if files else self.copies.locate(session_id)
        return in_folder(path) if path else None

    def _in_tree(self, session_id: str) -> SessionFiles | None:
        day = self._days.get(session_id)
        if day is not None and is_workspace_session(f"{day}/{session_id}"):
            return workspace_files(day, session_id)
        dates = self.folders.names(self._conversations)
        self._searches += 1
        if self._searches == SEARCHES_BEFORE_SCAN:
            for date in dates:
                day = f"{self._conversations}/{date}"
                self._days.update(dict.fromkeys(self.folders.names(day), day))
            return self._in_tree(session_id)
        for date in reversed(dates):  # the wanted session is usually a recent one
            day = f"{self._conversations}/{date}"
            # One `lstat` rules out most days: there can be very many of them.
            if os.path.lexists(f"{day}/{session_id}") and is_workspace_session(f"{day}/{session_id}"):
                self._days[session_id] = day
                return workspace_files(day, session_id)
        self._days.pop(session_id, None)
        return None

    # ── safety copies ────────────────────────────────────────────────────────────────────────────────

    def before_change(self, session_id: str) -> None:
        if self.copies is None:
            return
        paths = self.opened_paths.get(session_id)
        if paths and self.copies.is_unchanged(paths.files):
            return
        if paths:
            self.copies.look_again(paths.files)
        files = paths.files if paths and os.path.lexists(paths.files.log) else self._in_tree(session_id)
        if self.copies.bring_back(session_id, files.path if files else ""):
            self.positions.pop(files.log if files else "", None)
            self.opened_paths.pop(session_id, None)

    def after_change(self, session_id: str) -> None:
        if self.copies is None:
            return
        paths = self.opened_paths.get(session_id)
        files = paths.files if paths else self._in_tree(session_id)
        if files is not None:
            self.copies.keep(files)

    def forget_copy(self, files: SessionFiles, *, deleted: bool = False) -> None:
        if self.copies is not None:
            self.copies.forget(files, deleted=deleted)

    def rewrite_copy(self, files: SessionFiles, transform: Transform) -> None:
        if self.copies is not None:
            self.copies.rewrite(files, transform)

    def left(self) -> Iterator[Left]:
        """See capabilities.KeepsCopies."""
        if self.copies is None:
            return
        for session_id in self.ids():
            files = self._in_tree(session_id)
            if files is None:
                yield Left(session_id, self.copies.in_tree(self.copies.locate(session_id)))
                continue
            try:
                missing = self.copies.only_in_copy(files)
            except (CortextError, OSError):
                continue  # a link, for example: whoever reads the session is told
            if missing:
                yield Left(session_id, files.path, missing)

    def has_left(self, session_id: str) -> bool:
        """See capabilities.KeepsCopies."""
        return self.copies is not None and self._in_tree(check_id(session_id)) is None

    @durable.reports_os_errors
    def bring_back(self, session_id: str) -> int:
        """See capabilities.KeepsCopies."""
        if self.copies is None:
            return 0
        files = self._in_tree(check_id(session_id))
        before = self.survey(files).messages if files else 0
        with self.locked(session_id):
            files = self.files_of(session_id)
            self.copies.join(files)
            self.positions.pop(files.log, None)
            self.change_metadata(files, Change())
        return self.survey(files).messages - before

    def was_deleted(self, session_id: str) -> bool:
        """See capabilities.KeepsCopies."""
        in_trash = any(item.session_id == session_id for item in self.trash())
        return in_trash or (self.copies is not None and self.copies.was_deleted(session_id))

    # ── files ────────────────────────────────────────────────────────────────────────────────────────

    def new_files(self, session: Session) -> SessionFiles:
        return workspace_files(os.path.join(self._conversations, session.created_at[:10]), session.id)

    def load(self, files: SessionFiles) -> Metadata:
        fields, damage = load_fields(files.metadata)
        session = CODEC.decode(files.session_id, fields)
        session.created_at = session.created_at or _date_of(files)
        session.title = _title_of(files, session)
        return Metadata(session, fields, [*damage, *impossible_counts(files.metadata, fields)])

    def save(self, files: SessionFiles, session: Session, fields: dict[str, Any]) -> None:
        titled = msgspec.structs.replace(session, title=_title_of(files, session))
        save_fields(files.metadata, CODEC.encode(titled, fields), aside=self.control)

    def opened_files(self, session_id: str, lock: str) -> SessionFiles:
        new = session_id not in self.opened_paths
        files = super().opened_files(session_id, lock)
        if new:  # a bulk import may have crashed between renaming the session and flushing the folder
            try:
                durable.sync_folder(os.path.dirname(files.path))
            except OSError as error:
                if error.errno not in (errno.EACCES, errno.EPERM):  # another user's folder, which we cannot flush
                    del self.opened_paths[session_id]
                    raise durable.write_failed(error, files.path, "every acknowledged message") from error
        return files

    def create_atomically(self, session: Session, messages: Sequence[Message], change: Change) -> Session:
        """See capabilities.CreatesAtomically."""
        bulk = self.bulk()
        try:
            draft = bulk.begin(session.id)
            draft.write([[plain(message) for message in messages]])
            draft.finish(session, change)
            bulk.ready(draft)
            published = bulk.publish(lambda _: None)
        finally:
            bulk.close()
        if error := published.failed.get(session.id):
            raise error
        if session.id in published.taken:
            raise session_exists(session.id)
        return self.get(session.id)

    def bulk(self) -> Bulk:
        """See capabilities.Bulk."""
        from cortext.store.files.bulk import FileBulk  # imported late: only an import needs its threads

        return FileBulk(self, CODEC)

    def may_restore_to(self, session_id: str, path: str) -> bool:
        day, name = os.path.split(path)
        return name == session_id and os.path.dirname(day) == self._conversations


def _title_of(files: SessionFiles, session: Session) -> str:
    """Return the title that every face shows: the user's, else the heading of the notes, else what is stored."""
    if not session.type or is_titled_by_user(session):
        return session.title
    return best_title(_heading_of_notes(files, session), session.title)


def _heading_of_notes(files: SessionFiles, session: Session) -> str:
    """Return the heading of a conversation's notes, unless it is only its id."""
    name = f"{session.type}.md"
    if not name.isprintable() or os.path.basename(name) != name:
        return ""  # a type that another program wrote
    try:
        descriptor = durable.open_file(os.path.join(files.path, name), os.O_RDONLY)
    except (OSError, UnsafePath):
        return ""
    try:
        text = os.pread(descriptor, NOTES_HEAD, 0).decode("utf-8", "replace")
    finally:
        os.close(descriptor)
    heading = next((line[2:].strip() for line in text.splitlines() if line.startswith("# ")), "")
    return heading if heading not in (session.id, session.type, "{title}") else ""


def _date_of(files: SessionFiles) -> str:
    """Return the date of a conversation without readable metadata: the day that its folder is in."""
    return clock.normalise(os.path.basename(os.path.dirname(files.path)))
