"""The chat layout: `<sessions_dir>/<id>/{meta.json,current.jsonl,archive.jsonl,summary.json}`.

`current.jsonl` is what the model sees; older messages move to `archive.jsonl`. Each file counts its own
messages with `idx` from 0; `seq` goes on through both. `current.json` beside the sessions names the one
that is active on the command line. An embedding is a line of its own, after the message it belongs to.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from cortext import fsio
from cortext.jsonl import blocks, split_lines
from cortext.model import clock
from cortext.model.ids import check_id
from cortext.model.session import AgentConfig, Origin, Session
from cortext.model.status import ACTIVE
from cortext.store import archive
from cortext.store.files import (
    FileStore,
    FileWriter,
    Metadata,
    Place,
    load_fields,
    number_field,
    save_fields,
    text_field,
    without,
)
from cortext.store.journal import JournalReading
from cortext.store.lines import MESSAGE_TYPES, BadLine, decode_value, encode

_KNOWN = (
    "session_id",
    "created_at",
    "last_active",
    "message_count",
    "current_count",
    "archive_count",
    "status",
    "title",
    "token_count",
    "agent",
    "model",
    "continuation",
)


class ChatStore(FileStore):
    """The sessions of one assistant, a folder each."""

    name = "chat"

    def __init__(self, root: str, *, lock_timeout: float = 5.0) -> None:
        super().__init__(root, lock_timeout=lock_timeout)
        self._bases: dict[str, tuple[int, int]] = {}

    def _ids(self) -> Iterator[str]:
        for name in self.folders.names(self.root):
            if not name.startswith("."):
                yield name

    def _find(self, session_id: str) -> Place | None:
        place = self._at(session_id)
        there = os.path.exists(place.metadata) or os.path.exists(place.log)
        return place if there else None

    def _at(self, session_id: str) -> Place:
        folder = os.path.join(self.root, session_id)
        return Place(
            session_id=session_id,
            whole=folder,
            metadata=os.path.join(folder, "meta.json"),
            log=os.path.join(folder, "current.jsonl"),
            archive=os.path.join(folder, "archive.jsonl"),
        )

    def _new_place(self, session: Session) -> Place:
        return self._at(session.id)

    def _line_prefix(self, seq: int, place: Place) -> bytes:
        return b'"idx": %d, ' % (seq - self._base(place))

    def _base(self, place: Place) -> int:
        """The number of the message with idx 0. It changes only when a compaction replaces the file."""
        try:
            inode = os.stat(place.log).st_ino
        except FileNotFoundError:
            inode = 0
        known = self._bases.get(place.log)
        if known is None or known[0] != inode:
            known = self._bases[place.log] = (inode, archive.first_seq(place.archive, place.log))
        return known[1]

    def _load(self, place: Place) -> Metadata:
        fields, damage = load_fields(place.metadata)
        summary, summary_damage = load_fields(_summary_path(place))
        if os.path.exists(_summary_path(place)):
            damage = [*damage, *summary_damage]
        origin = fields.get("continuation")
        origin = origin if isinstance(origin, dict) else {}
        session = Session(
            id=place.session_id,
            type="chat",
            title=text_field(fields, "title"),
            status=text_field(fields, "status", ACTIVE),
            created_at=clock.normalise(text_field(fields, "created_at")),
            last_active=clock.normalise(text_field(fields, "last_active")),
            summary=text_field(summary, "summary_text"),
            summary_covers=number_field(summary, "covers") or number_field(summary, "message_count"),
            summary_by=text_field(summary, "by"),
            agent=text_field(fields, "agent"),
            agent_config=AgentConfig(model=text_field(fields, "model")),
            origin=Origin(tool=text_field(origin, "tool"), session_id=text_field(origin, "session_id")),
            extra=without(fields, _KNOWN),
        )
        return Metadata(session, fields, damage)

    def _save(self, place: Place, session: Session, fields: dict[str, Any]) -> None:
        archived = sum(len(batch) for batch in JournalReading(place.archive).batches())
        known: dict[str, Any] = {
            "session_id": session.id,
            "created_at": session.created_at,
            "last_active": session.last_active,
            "message_count": session.message_count,
            "current_count": session.message_count - archived,
            "archive_count": archived,
            "status": session.status,
        }
        optional = {
            "title": session.title,
            "token_count": session.token_count,
            "agent": session.agent,
            "model": session.agent_config.model,
        }
        known |= {name: value for name, value in optional.items() if value or name in fields}
        if session.origin.tool:
            known["continuation"] = {"tool": session.origin.tool, "session_id": session.origin.session_id}
        self._save_summary(place, session)
        save_fields(place.metadata, {**fields, **known, **session.extra})

    def _save_summary(self, place: Place, session: Session) -> None:
        path = _summary_path(place)
        old, _ = load_fields(path)
        unchanged = text_field(old, "summary_text") == session.summary and (
            number_field(old, "covers") == session.summary_covers
        )
        if not session.summary or unchanged:
            return
        now = clock.now()
        fresh = {
            "session_id": session.id,
            "summary_text": session.summary,
            "embedding": None,
            "message_count": session.message_count,
            "created_at": text_field(old, "created_at", now),
            "last_summarized": now,
            "covers": session.summary_covers,
            "by": session.summary_by,
        }
        save_fields(path, {**old, **fresh})

    # ── records about messages, and the session that is current here ─────────────────────────────────

    def annotate(self, session_id: str, *records: dict[str, object]) -> None:
        """See base.Annotates."""
        lines = [encode(record) + b"\n" for record in records]
        with self.open(session_id) as writer:
            assert isinstance(writer, FileWriter)
            writer.append_raw(lines)

    def annotations(self, session_id: str) -> Iterator[dict[str, object]]:
        """See base.Annotates."""
        place = self._place(session_id)
        for path in (place.archive, place.log):
            yield from _annotations_of(path)

    def current_id(self) -> str:
        """The session that is active on the command line; empty where there is none."""
        fields, _ = load_fields(os.path.join(self.root, "current.json"))
        return text_field(fields, "session_id")

    def set_current(self, session_id: str) -> None:
        """Remember the active session across restarts."""
        path = os.path.join(self.root, "current.json")
        fields, _ = load_fields(path)
        save_fields(path, {**fields, "session_id": check_id(session_id)})


def _summary_path(place: Place) -> str:
    return os.path.join(place.whole, "summary.json")


def _annotations_of(path: str) -> Iterator[dict[str, object]]:
    try:
        descriptor = fsio.open_file(path, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        for _, piece, _ in blocks(descriptor, 0, os.fstat(descriptor).st_size):
            for raw in split_lines(piece or b""):
                try:
                    record = decode_value(raw)
                except BadLine:
                    continue
                if isinstance(record, dict) and record.get("type", "") not in MESSAGE_TYPES:
                    yield record
    finally:
        os.close(descriptor)
