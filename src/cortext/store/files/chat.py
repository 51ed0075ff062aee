"""The chat layout: `<sessions_dir>/<id>/{meta.json,current.jsonl,archive.jsonl,summary.json}`.

`current.jsonl` is what the model sees; older messages move to `archive.jsonl`. `idx` counts the messages of each file
from 0; `seq` counts through both. An embedding is a line of its own, after the message it belongs to.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from typing import Any

from cortext.io import durable
from cortext.io.jsonl import blocks, split_lines
from cortext.model import clock
from cortext.model.session import Session
from cortext.store.base import Reading
from cortext.store.files.fields import number_field, text_field
from cortext.store.files.journal import JournalReading
from cortext.store.files.layout import LOCK_TIMEOUT, FileLayout
from cortext.store.files.layout_paths import SessionFiles, chat_files, session_ids
from cortext.store.files.lines import BadLine, coerce, decode_value, encode_annotation
from cortext.store.files.metadata import Metadata, MetadataCodec, impossible_counts, load_fields, save_fields
from cortext.store.files.store import FileStore
from cortext.store.files.writer import FileSessionWriter

CODEC = MetadataCodec(
    required={
        "session_id": "id",
        "created_at": "created_at",
        "last_active": "last_active",
        "message_count": "message_count",
        "current_count": "current_count",
        "archive_count": "archive_count",
        "status": "status",
    },
    optional={
        "aside_count": "aside_count",
        "title": "title",
        "token_count": "token_count",
        "agent": "agent",
        "model": "model",
        "agent_config": "agent_config",
        "continuation": "origin",
    },
    type="chat",
)


class ChatStore(FileStore):
    """The sessions of one assistant, one folder each."""

    name = "chat"
    has_counts = True

    def __init__(self, root: str, *, lock_timeout: float = LOCK_TIMEOUT) -> None:
        super().__init__(root, lock_timeout=lock_timeout)
        self._first_seqs: dict[str, int] = {}

    def ids(self) -> Iterator[str]:
        self.folders.check(self.root)
        return session_ids(self.name, self.root)

    def locate(self, session_id: str) -> SessionFiles | None:
        files = chat_files(self.root, session_id)
        return files if os.path.exists(files.metadata) or os.path.exists(files.log) else None

    def new_files(self, session: Session) -> SessionFiles:
        return chat_files(self.root, session.id)

    def line_prefix(self, seq: int, files: SessionFiles) -> bytes:
        return b'"idx": %d, ' % (seq - self._known_first_seq(files))

    def _known_first_seq(self, files: SessionFiles) -> int:
        """Return the sequence number of the message with `idx` 0."""
        known = self._first_seqs.get(files.log)
        return self.first_seq(files) if known is None else known

    def first_seq(self, files: SessionFiles) -> int:
        # Not cached by the log's inode: after a few compactions a new file gets the inode of an old one.
        seq = self._first_seqs[files.log] = super().first_seq(files)
        return seq

    def load(self, files: SessionFiles) -> Metadata:
        fields, damage = load_fields(files.metadata)
        summary, summary_damage = load_fields(files.summary)
        if os.path.exists(files.summary):
            damage = [*damage, *summary_damage]
        session = CODEC.decode(files.session_id, fields)
        session.summary = text_field(summary, "summary_text")
        session.summary_covers = _covers(summary)
        session.summary_by = text_field(summary, "by")
        return Metadata(session, fields, [*damage, *impossible_counts(files.metadata, fields)])

    def save(self, files: SessionFiles, session: Session, fields: dict[str, Any]) -> None:
        archived_count = sum(len(batch) for batch in JournalReading(files.archive).batches())
        self._save_summary(files.summary, session)
        current_count = session.line_count - archived_count
        new_fields = CODEC.encode(session, fields, current_count=current_count, archive_count=archived_count)
        save_fields(files.metadata, new_fields, aside=self.control)

    def _save_summary(self, path: str, session: Session) -> None:
        old, damage = load_fields(path)
        new = (session.summary, session.summary_covers, session.summary_by)
        if new == (text_field(old, "summary_text"), _covers(old), text_field(old, "by")):
            if damage and os.path.lexists(path):
                durable.remove(path)  # its bytes have been quarantined
            return
        now = clock.now()
        new_fields = {
            "session_id": session.id,
            "summary_text": session.summary,
            # The embedding of another text would be wrong.
            "embedding": old.get("embedding") if text_field(old, "summary_text") == session.summary else None,
            "message_count": session.line_count,
            "created_at": text_field(old, "created_at", now),
            "last_summarized": now,
            "covers": session.summary_covers,
            "by": session.summary_by,
            "version": number_field(old, "version") + 1,
        }
        save_fields(path, {**old, **new_fields}, aside=self.control)

    def embed_summary(self, session_id: str, summary: str, embedding: dict[str, object]) -> bool:
        """See capabilities.EmbedsSummaries."""
        with self.locked(session_id):
            path = self.files_of(session_id).summary
            fields, _ = load_fields(path)
            if not summary or text_field(fields, "summary_text") != summary:
                return False
            save_fields(path, {**fields, "embedding": embedding}, aside=self.control)
        return True

    def summary_embedding(self, session_id: str) -> dict[str, object] | None:
        """See capabilities.EmbedsSummaries."""
        fields, _ = load_fields(self.files_of(session_id).summary)
        embedding = fields.get("embedding")
        return embedding if isinstance(embedding, dict) else None

    def working(self, session_id: str) -> Reading:
        """See capabilities.KeepsWorking."""
        files = self.files_of(session_id)
        return JournalReading(files.log, first_seq=FileLayout.first_seq(self, files))

    # ── records about messages ───────────────────────────────────────────────────────────────────────

    def annotate(self, session_id: str, *records: dict[str, object]) -> None:
        """See capabilities.Annotates."""
        with self.open(session_id) as writer:
            assert isinstance(writer, FileSessionWriter)
            # A turn and the worker may both have made a vector, of a message that is too new to be archived.
            has_vectors = any(record.get("model") for record in records)
            log = _annotations_of(self.files_of(session_id).log) if has_vectors else ()
            known = {_subject(record) for _, record in log}
            new = [record for record in records if not record.get("model") or _subject(record) not in known]
            lines = [encode_annotation(record) for record in new]
            if lines:
                writer.append_raw(lines)

    def annotations(self, session_id: str) -> Iterator[dict[str, object]]:
        """See capabilities.Annotates."""
        files = self.files_of(session_id)
        archived: set[bytes] = set()
        for raw, record in _annotations_of(files.archive):
            archived.add(_digest(raw))
            yield record
        for raw, record in _annotations_of(files.log):
            if _digest(raw) not in archived:  # an interrupted compaction leaves it in both files
                yield record


def _covers(summary: dict[str, Any]) -> int:
    """Return how many messages a summary covers; without `covers` it was made of all messages of its time."""
    return number_field(summary, "covers") if "covers" in summary else number_field(summary, "message_count")


def _subject(record: dict[str, object]) -> tuple[object, ...]:
    """Return what a record about a message says, and by which model: it is stored once."""
    return record.get("type"), record.get("message_id"), record.get("model")


def _digest(raw: bytes) -> bytes:
    return hashlib.blake2b(raw.strip(), digest_size=16).digest()


def _annotations_of(path: str) -> Iterator[tuple[bytes, dict[str, object]]]:
    try:
        descriptor = durable.open_file(path, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        for _, block, _ in blocks(descriptor, 0, os.fstat(descriptor).st_size):
            for raw in split_lines(block or b""):
                if b'"message_id"' not in raw:  # most lines are messages: skip them without decoding
                    continue
                try:
                    record = decode_value(raw)
                    if not coerce(record).role:
                        yield raw, record
                except BadLine:
                    continue  # every reading of the messages reports it as damage
    finally:
        os.close(descriptor)
