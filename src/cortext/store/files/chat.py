"""The chat layout: `<sessions_dir>/<id>/{meta.json,current.jsonl,archive.jsonl,summary.json}`.

`current.jsonl` is what the model sees; older messages move to `archive.jsonl`. Each file counts its own
messages with `idx` from 0; `seq` goes on through both. `current.json` beside the sessions names the one
that is active on the command line. An embedding is a line of its own, after the message it belongs to.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from typing import Any

from cortext.io import files as fsio
from cortext.io.jsonl import blocks, split_lines
from cortext.model import clock
from cortext.model.ids import check_id, is_id
from cortext.model.session import Session
from cortext.model.status import ACTIVE
from cortext.store.base import Reading
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
from cortext.store.files.journal import JournalReading
from cortext.store.files.lines import BadLine, coerce, decode_value, encode_annotation
from cortext.store.files.session_files import Metadata, Place
from cortext.store.files.store import LOCK_TIMEOUT, FileStore
from cortext.store.files.writer import FileWriter

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
    "agent_config",
    "continuation",
)


class ChatStore(FileStore):
    """The sessions of one assistant, a folder each."""

    name = "chat"
    counted = True

    def __init__(self, root: str, *, lock_timeout: float = LOCK_TIMEOUT) -> None:
        super().__init__(root, lock_timeout=lock_timeout)
        self._bases: dict[str, int] = {}

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
        """The number of the message with idx 0."""
        known = self._bases.get(place.log)
        return self._first_seq(place) if known is None else known

    def _first_seq(self, place: Place) -> int:
        # Not remembered by the inode of the log: after a few compactions a new file has that of an old one.
        base = self._bases[place.log] = super()._first_seq(place)
        return base

    def _load(self, place: Place) -> Metadata:
        fields, damage = load_fields(place.metadata)
        summary, summary_damage = load_fields(_summary_path(place))
        if os.path.exists(_summary_path(place)):
            damage = [*damage, *summary_damage]
        config = agent_config_of(fields)
        config.model = text_field(fields, "model")
        session = Session(
            id=place.session_id,
            type="chat",
            title=text_field(fields, "title"),
            status=text_field(fields, "status", ACTIVE),
            created_at=clock.normalise(text_field(fields, "created_at")),
            last_active=clock.normalise(text_field(fields, "last_active")),
            summary=text_field(summary, "summary_text"),
            summary_covers=_covers(summary),
            summary_by=text_field(summary, "by"),
            agent=text_field(fields, "agent"),
            agent_config=config,
            origin=origin_of(fields),
            extra=without(fields, _KNOWN),
        )
        return Metadata(session, fields, [*damage, *impossible_counts(place.metadata, fields)])

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
        config = session.agent_config
        more = config.command or config.system_prompt_hash or config.tools or "agent_config" in fields
        optional = {
            "title": session.title,
            "token_count": session.token_count,
            "agent": session.agent,
            "model": config.model,
            "agent_config": agent_config_fields(fields, config) if more else {},
            "continuation": origin_fields(fields, session.origin),
        }
        self._save_summary(place, session)
        save_fields(place.metadata, merged(fields, known, optional, session.extra), aside=self.control)

    def _save_summary(self, place: Place, session: Session) -> None:
        path = _summary_path(place)
        old, damage = load_fields(path)
        new = (session.summary, session.summary_covers, session.summary_by)
        if new == (text_field(old, "summary_text"), _covers(old), text_field(old, "by")):
            if damage and os.path.lexists(path):
                fsio.remove(path)  # its bytes are in quarantine
            return
        now = clock.now()
        fresh = {
            "session_id": session.id,
            "summary_text": session.summary,
            # An embedding belongs to its text.
            "embedding": old.get("embedding") if text_field(old, "summary_text") == session.summary else None,
            "message_count": session.message_count,
            "created_at": text_field(old, "created_at", now),
            "last_summarized": now,
            "covers": session.summary_covers,
            "by": session.summary_by,
            "version": number_field(old, "version") + 1,
        }
        save_fields(path, {**old, **fresh}, aside=self.control)

    def embed_summary(self, session_id: str, summary: str, embedding: dict[str, object]) -> bool:
        """See assistant.EmbedsSummaries."""
        with self._locked(session_id):
            path = _summary_path(self._place(session_id))
            fields, _ = load_fields(path)
            if not summary or text_field(fields, "summary_text") != summary:
                return False
            save_fields(path, {**fields, "embedding": embedding}, aside=self.control)
        return True

    def summary_embedding(self, session_id: str) -> dict[str, object] | None:
        """See assistant.EmbedsSummaries."""
        fields, _ = load_fields(_summary_path(self._place(session_id)))
        embedding = fields.get("embedding")
        return embedding if isinstance(embedding, dict) else None

    def working(self, session_id: str) -> Reading:
        """See assistant.KeepsWorking."""
        place = self._place(session_id)
        return JournalReading(place.log, first_seq=FileStore._first_seq(self, place))

    # ── records about messages, and the session that is current here ─────────────────────────────────

    def annotate(self, session_id: str, *records: dict[str, object]) -> None:
        """See base.Annotates."""
        lines = [encode_annotation(record) for record in records]
        with self.open(session_id) as writer:
            assert isinstance(writer, FileWriter)
            writer.append_raw(lines)

    def annotations(self, session_id: str) -> Iterator[dict[str, object]]:
        """See base.Annotates."""
        place = self._place(session_id)
        archived: set[bytes] = set()
        for raw, record in _annotations_of(place.archive):
            archived.add(_digest(raw))
            yield record
        for raw, record in _annotations_of(place.log):
            if _digest(raw) not in archived:  # an interrupted compaction leaves it in both files
                yield record

    def current_id(self) -> str:
        """The session that is active on the command line; empty where there is none."""
        fields, _ = load_fields(os.path.join(self.root, "current.json"))
        session_id = text_field(fields, "session_id")
        return session_id if is_id(session_id) else ""

    def set_current(self, session_id: str) -> None:
        """Remember the active session across restarts."""
        check_id(session_id)
        fsio.ensure_folder(self.root)
        path = os.path.join(self.root, "current.json")
        fields, _ = load_fields(path)
        save_fields(path, {**fields, "session_id": session_id})


def _summary_path(place: Place) -> str:
    return os.path.join(place.whole, "summary.json")


def _covers(summary: dict[str, Any]) -> int:
    """How far a summary reaches; one that does not say was made of all there was."""
    return number_field(summary, "covers") if "covers" in summary else number_field(summary, "message_count")


def _digest(raw: bytes) -> bytes:
    return hashlib.blake2b(raw.strip(), digest_size=16).digest()


def _annotations_of(path: str) -> Iterator[tuple[bytes, dict[str, object]]]:
    try:
        descriptor = fsio.open_file(path, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        for _, piece, _ in blocks(descriptor, 0, os.fstat(descriptor).st_size):
            for raw in split_lines(piece or b""):
                if b'"message_id"' not in raw:  # most lines are messages: they need not be decoded to know that
                    continue
                try:
                    record = decode_value(raw)
                    if not coerce(record).role:
                        yield raw, record
                except BadLine:
                    continue  # told as damage by every reading of the messages
    finally:
        os.close(descriptor)
