"""The workspace layout: `conversations/<date>/<id>/.session/{session.json,messages.jsonl}` in a git repo.

The folder of a conversation also holds its markdown, which is not ours. A conversation without
`.session/` is plain markdown and no session. Pruned messages lie in `archive.jsonl` beside the log.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from typing import Any

from cortext.errors import session_exists
from cortext.io import files as fsio
from cortext.model import clock
from cortext.model.message import Message, plain
from cortext.model.session import Change, Session
from cortext.store.capabilities import Bulk
from cortext.store.files.layout import LOCK_TIMEOUT
from cortext.store.files.layout_paths import CONVERSATIONS, SessionFiles, is_workspace_session, workspace_files
from cortext.store.files.metadata import Metadata, MetadataCodec, impossible_counts, load_fields, save_fields
from cortext.store.files.store import FileStore

MANY = 16
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
        "summary_covers": "summary_covers",
        "summary_by": "summary_by",
        "agent": "agent",
        "continuation": "origin",
    },
)


class WorkspaceStore(FileStore):
    """Sessions in the conversation folders of a workspace."""

    name = "workspace"
    counted = True

    def __init__(self, root: str, *, lock_timeout: float = LOCK_TIMEOUT) -> None:
        super().__init__(root, lock_timeout=lock_timeout)
        self._conversations = os.path.join(self.root, CONVERSATIONS)
        self._found: dict[str, str] = {}  # id to day: a hint, checked at every use
        self._searches = 0

    def ids(self) -> Iterator[str]:
        seen: dict[str, str] = {}
        for date in self.folders.names(self._conversations):
            day = os.path.join(self._conversations, date)
            for name in self.folders.names(day):
                # Only one conversation can own an id: a second one of that name is told by doctor.
                if is_workspace_session(os.path.join(day, name)) and seen.setdefault(name, day) == day:
                    self._found[name] = day
                    yield name

    def locate(self, session_id: str) -> SessionFiles | None:
        day = self._found.get(session_id)
        if day is not None and is_workspace_session(f"{day}/{session_id}"):
            return workspace_files(day, session_id)
        dates = self.folders.names(self._conversations)
        self._searches += 1
        if self._searches == MANY:  # somebody goes through all of them: learn where they lie, once
            for date in dates:
                day = f"{self._conversations}/{date}"
                self._found.update(dict.fromkeys(self.folders.names(day), day))
            return self.locate(session_id)
        for date in reversed(dates):  # what is asked for is mostly new
            day = f"{self._conversations}/{date}"
            # One look at most days: very many conversations lie in very many of them.
            if os.path.lexists(f"{day}/{session_id}") and is_workspace_session(f"{day}/{session_id}"):
                self._found[session_id] = day
                return workspace_files(day, session_id)
        self._found.pop(session_id, None)
        return None

    def new_files(self, session: Session) -> SessionFiles:
        return workspace_files(os.path.join(self._conversations, session.created_at[:10]), session.id)

    def load(self, files: SessionFiles) -> Metadata:
        fields, damage = load_fields(files.metadata)
        session = CODEC.decode(files.session_id, fields)
        session.created_at = session.created_at or _date_of(files)
        return Metadata(session, fields, [*damage, *impossible_counts(files.metadata, fields)])

    def save(self, files: SessionFiles, session: Session, fields: dict[str, Any]) -> None:
        save_fields(files.metadata, CODEC.encode(session, fields), aside=self.control)

    def opened_files(self, session_id: str, lock: str) -> SessionFiles:
        new = session_id not in self.opened
        files = super().opened_files(session_id, lock)
        if new:  # a bulk import may have crashed between the rename and the fsync of the folder
            try:
                fsio.sync_folder(os.path.dirname(files.path))
            except OSError as error:
                if error.errno not in (errno.EACCES, errno.EPERM):  # the folder of somebody who lets us write below it
                    del self.opened[session_id]
                    raise fsio.write_failed(error, files.path, "every acknowledged message") from error
        return files

    def create_whole(self, session: Session, messages: Sequence[Message], change: Change) -> Session:
        """See capabilities.CreatesWhole."""
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
        from cortext.store.files.bulk import FileBulk  # with its threads: only an import needs it

        return FileBulk(self, CODEC)

    def may_restore_to(self, session_id: str, path: str) -> bool:
        day, name = os.path.split(path)
        return name == session_id and os.path.dirname(day) == self._conversations


def _date_of(files: SessionFiles) -> str:
    """When a conversation without readable metadata began: the day that its folder is filed under."""
    return clock.normalise(os.path.basename(os.path.dirname(files.path)))
