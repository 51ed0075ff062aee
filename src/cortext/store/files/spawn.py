"""The spawn layout: one `<id>.jsonl`. Its first line is the current metadata, every other line is a message.

An append never changes earlier lines. A change of status replaces the whole file atomically; only the first line
differs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from msgspec import structs

from cortext.errors import session_exists
from cortext.io import durable
from cortext.model import clock
from cortext.model.ids import check_id, is_id
from cortext.model.message import Message
from cortext.model.session import Change, Session
from cortext.store.base import METADATA, Damage
from cortext.store.files.layout_paths import SessionFiles, session_ids, spawn_files
from cortext.store.files.lines import BadLine, decode_value, encode, encode_message
from cortext.store.files.log import complete, quarantine_path
from cortext.store.files.metadata import MAX_METADATA, Metadata, MetadataCodec
from cortext.store.files.store import FileStore

CODEC = MetadataCodec(
    constants={"type": "metadata"},
    required={"session_id": "id", "agent": "agent", "created_at": "created_at", "status": "status"},
    optional={
        "model": "model",
        "title": "title",
        "summary": "summary",
        "summary_covers": "summary_covers",
        "summary_by": "summary_by",
        "agent_config": "agent_config",
        "continuation": "origin",
    },
    type="spawn",
)
_TURN = b'"type": "turn", '


class SpawnStore(FileStore):
    """The sessions of named agents, one file each."""

    name = "spawn"
    is_leased = True

    def ids(self) -> Iterator[str]:
        return filter(is_id, session_ids(self.name, self.root))

    def locate(self, session_id: str) -> SessionFiles | None:
        files = spawn_files(self.root, session_id)
        return files if os.path.lexists(files.log) else None

    def new_files(self, session: Session) -> SessionFiles:
        return spawn_files(self.root, session.id)

    def make(self, files: SessionFiles, session: Session) -> None:
        durable.ensure_folder(self.root)
        durable.replace_file(files.log, [_metadata_line(session, {})], aside=self.control)

    @durable.reports_os_errors
    def create_atomically(self, session: Session, messages: Sequence[Message], change: Change) -> Session:
        """See capabilities.CreatesAtomically."""
        check_id(session.id)
        created = clock.normalise(session.created_at) or clock.now()
        numbered = [complete(message, seq) for seq, message in enumerate(messages)]
        created_session = change.apply(structs.replace(session, created_at=created, last_active=created))
        with self.locked(session.id, new=True):
            if self.locate(session.id) is not None:
                raise session_exists(session.id)
            files = self.new_files(created_session)
            self.folders.check(os.path.dirname(files.log))
            durable.ensure_folder(self.root)
            lines = (encode_message(message, _TURN) for message in numbered)
            durable.replace_file(files.log, chain([_metadata_line(created_session, {})], lines), aside=self.control)
        return self.get(session.id)

    def line_prefix(self, seq: int, files: SessionFiles) -> bytes:
        return _TURN

    def to_trash(self, files: SessionFiles) -> list[str]:
        return [files.path, quarantine_path(files.log)]

    def load(self, files: SessionFiles) -> Metadata:
        line = _first_line(files.log)
        fields: dict[str, Any] = {}
        damage = []
        try:
            value = decode_value(line)
            if isinstance(value, dict) and value.get("type") == "metadata":
                fields = value
            else:
                damage.append(Damage(os.path.basename(files.log), 0, 0, METADATA, "line 1 is not the metadata"))
        except BadLine as error:
            # The line itself is reported, and quarantined, as an unreadable line of the log.
            damage.append(Damage(os.path.basename(files.log), 0, 0, METADATA, f"line 1: {error}"))
        session = CODEC.decode(files.session_id, fields)
        session.last_active = session.created_at
        return Metadata(session, fields, damage)

    def save(self, files: SessionFiles, session: Session, fields: dict[str, Any]) -> None:
        descriptor = durable.open_file(files.log, os.O_RDONLY)
        try:
            size = os.fstat(descriptor).st_size
            # Only a line that was read as metadata is replaced; any other first line is kept.
            start = len(_first_line(files.log)) if fields else 0
            rest = durable.read_blocks(descriptor, start, size)
            durable.replace_file(files.log, chain([_metadata_line(session, fields)], rest), aside=self.control)
        finally:
            os.close(descriptor)


def _first_line(path: str) -> bytes:
    """Return the first line with its newline, up to the maximum size of metadata."""
    descriptor = durable.open_file(path, os.O_RDONLY)
    try:
        found = []
        for block in durable.read_blocks(descriptor, 0, min(os.fstat(descriptor).st_size, MAX_METADATA)):
            newline = block.find(b"\n")
            if newline >= 0:
                found.append(block[: newline + 1])
                break
            found.append(block)
        return b"".join(found)
    finally:
        os.close(descriptor)


def _metadata_line(session: Session, fields: dict[str, Any]) -> bytes:
    return encode(CODEC.encode(session, fields)) + b"\n"
