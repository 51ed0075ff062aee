"""The workspace layout: `conversations/<date>/<id>/.session/{session.json,messages.jsonl}` in a git repo.

The folder of a conversation also holds its markdown, which is not ours. A conversation without
`.session/` is plain markdown and no session. Pruned messages lie in `archive.jsonl` beside the log.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from typing import Any

from cortext.errors import SessionExists
from cortext.io import files as fsio
from cortext.model import clock
from cortext.model.message import Message, plain
from cortext.model.session import Change, Session
from cortext.model.status import ACTIVE
from cortext.store.base import Bulk
from cortext.store.files.fields import (
    agent_config_fields,
    agent_config_of,
    impossible_counts,
    load_fields,
    merged,
    number_field,
    origin_fields,
    origin_of,
    save_fields,
    text_field,
    without,
)
from cortext.store.files.session_files import Metadata, Place
from cortext.store.files.store import LOCK_TIMEOUT, FileStore

VERSION = "1.0"
CONVERSATIONS = "conversations"
SESSION = ".session"
MANY = 16
_KNOWN = (
    "version",
    "conversation_id",
    "conversation_type",
    "title",
    "status",
    "created_at",
    "last_active",
    "message_count",
    "token_count",
    "context_summary",
    "summary_covers",
    "summary_by",
    "agent",
    "agent_config",
    "continuation",
)


class WorkspaceStore(FileStore):
    """Sessions in the conversation folders of a workspace."""

    name = "workspace"
    counted = True

    def __init__(self, root: str, *, lock_timeout: float = LOCK_TIMEOUT) -> None:
        super().__init__(root, control=os.path.join(root, ".workspace", "state"), lock_timeout=lock_timeout)
        self._conversations = os.path.join(self.root, CONVERSATIONS)
        self._found: dict[str, str] = {}  # id to day: a hint, checked at every use
        self._searches = 0

    def _ids(self) -> Iterator[str]:
        seen: dict[str, str] = {}
        for date in self.folders.names(self._conversations):
            day = os.path.join(self._conversations, date)
            for name in self.folders.names(day):
                # Only one conversation can own an id: a second one of that name is told by doctor.
                if self._is_session(os.path.join(day, name)) and seen.setdefault(name, day) == day:
                    self._found[name] = day
                    yield name

    def _find(self, session_id: str) -> Place | None:
        day = self._found.get(session_id)
        if day is not None and self._is_session(f"{day}/{session_id}"):
            return self._at(day, session_id)
        dates = self.folders.names(self._conversations)
        self._searches += 1
        if self._searches == MANY:  # somebody goes through all of them: learn where they lie, once
            for date in dates:
                day = f"{self._conversations}/{date}"
                self._found.update(dict.fromkeys(self.folders.names(day), day))
            return self._find(session_id)
        for date in reversed(dates):  # what is asked for is mostly new
            day = f"{self._conversations}/{date}"
            # One look at most days: very many conversations lie in very many of them.
            if os.path.lexists(f"{day}/{session_id}") and self._is_session(f"{day}/{session_id}"):
                self._found[session_id] = day
                return self._at(day, session_id)
        self._found.pop(session_id, None)
        return None

    def _is_session(self, folder: str) -> bool:
        session = f"{folder}/{SESSION}"
        return os.path.exists(f"{session}/session.json") or os.path.exists(f"{session}/messages.jsonl")

    def _at(self, day: str, session_id: str) -> Place:
        whole = os.path.join(day, session_id)
        folder = os.path.join(whole, SESSION)
        return Place(
            session_id=session_id,
            whole=whole,
            metadata=os.path.join(folder, "session.json"),
            log=os.path.join(folder, "messages.jsonl"),
            archive=os.path.join(folder, "archive.jsonl"),
        )

    def _new_place(self, session: Session) -> Place:
        return self._at(os.path.join(self._conversations, session.created_at[:10]), session.id)

    def _load(self, place: Place) -> Metadata:
        fields, damage = load_fields(place.metadata)
        session = Session(
            id=place.session_id,
            type=text_field(fields, "conversation_type"),
            title=text_field(fields, "title"),
            status=text_field(fields, "status", ACTIVE),
            created_at=clock.normalise(text_field(fields, "created_at")) or _date_of(place),
            last_active=clock.normalise(text_field(fields, "last_active")),
            summary=text_field(fields, "context_summary"),
            summary_covers=number_field(fields, "summary_covers"),
            summary_by=text_field(fields, "summary_by"),
            agent=text_field(fields, "agent"),
            agent_config=agent_config_of(fields),
            origin=origin_of(fields),
            extra=without(fields, _KNOWN),
        )
        return Metadata(session, fields, [*damage, *impossible_counts(place.metadata, fields)])

    def _save(self, place: Place, session: Session, fields: dict[str, Any]) -> None:
        save_fields(place.metadata, self.fields_of(session, fields), aside=self.control)

    def fields_of(self, session: Session, fields: dict[str, Any]) -> dict[str, Any]:
        """The metadata as it is written; `fields` are the old ones."""
        known: dict[str, Any] = {
            "version": text_field(fields, "version", VERSION),
            "conversation_id": session.id,
            "conversation_type": session.type,
            "title": session.title,
            "status": session.status,
            "created_at": session.created_at,
            "last_active": session.last_active,
            "message_count": session.message_count,
            "token_count": session.token_count,
            "agent_config": agent_config_fields(fields, session.agent_config),
            "context_summary": session.summary,
        }
        optional = {
            "summary_covers": session.summary_covers,
            "summary_by": session.summary_by,
            "agent": session.agent,
            "continuation": origin_fields(fields, session.origin),
        }
        return merged(fields, known, optional, session.extra)

    def _known_place(self, session_id: str, lock: str) -> Place:
        new = session_id not in self._ways
        place = super()._known_place(session_id, lock)
        if new:  # who put the folder there (store/bulk) may have died before its name was flushed
            try:
                fsio.sync_folder(os.path.dirname(place.whole))
            except OSError as error:
                if error.errno not in (errno.EACCES, errno.EPERM):  # the folder of somebody who lets us write below it
                    del self._ways[session_id]
                    raise fsio.write_failed(error, place.whole, "every acknowledged message") from error
        return place

    def names(self) -> Iterator[str]:
        """The names of all conversations; not all of them are sessions."""
        for date in self.folders.names(self._conversations):
            yield from self.folders.names(os.path.join(self._conversations, date))

    def learn(self, session_id: str, day: str) -> None:
        """Where a session lies that was put there without asking us."""
        self._found[session_id] = day

    def create_whole(self, session: Session, messages: Sequence[Message], change: Change) -> Session:
        """See base.CreatesWhole."""
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
            raise SessionExists(f"there is a session {session.id} already", kept="it is unchanged")
        return self.get(session.id)

    def bulk(self) -> Bulk:
        """See base.Bulk."""
        from cortext.store.files.bulk import WorkspaceBulk

        return WorkspaceBulk(self)

    def _may_lie(self, session_id: str, path: str) -> bool:
        day, name = os.path.split(path)
        return name == session_id and os.path.dirname(day) == self._conversations


def _date_of(place: Place) -> str:
    """When a conversation without readable metadata began: the day that its folder is filed under."""
    return clock.normalise(os.path.basename(os.path.dirname(place.whole)))
