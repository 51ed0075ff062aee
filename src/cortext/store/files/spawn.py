"""The spawn layout: one `<id>.jsonl`, its first line always the current metadata, every other a turn.

An append never touches what is there. A change of status replaces the whole file atomically, with the
same lines after the first.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from msgspec import structs

from cortext.errors import SessionExists
from cortext.io import files as fsio
from cortext.model import clock
from cortext.model.ids import check_id, is_id
from cortext.model.message import Message
from cortext.model.session import Change, Session
from cortext.model.status import ACTIVE
from cortext.store.base import METADATA, Damage
from cortext.store.files import quarantine
from cortext.store.files.fields import (
    MAX_METADATA,
    agent_config_fields,
    agent_config_of,
    merged,
    number_field,
    origin_fields,
    origin_of,
    text_field,
    without,
)
from cortext.store.files.lines import BadLine, decode_value, encode, encode_message
from cortext.store.files.log import complete
from cortext.store.files.session_files import Metadata, Place
from cortext.store.files.store import FileStore

SUFFIX = ".jsonl"
_KNOWN = (
    "type",
    "session_id",
    "agent",
    "created_at",
    "status",
    "model",
    "title",
    "summary",
    "summary_covers",
    "summary_by",
    "agent_config",
    "continuation",
)
_TURN = b'"type": "turn", '


class SpawnStore(FileStore):
    """Sessions of named agents, a file each."""

    name = "spawn"
    leased = True

    def _ids(self) -> Iterator[str]:
        try:
            names = os.listdir(self.root)
        except FileNotFoundError:
            return
        for name in sorted(names):
            if name.endswith(SUFFIX) and is_id(name.removesuffix(SUFFIX)):
                yield name.removesuffix(SUFFIX)

    def _find(self, session_id: str) -> Place | None:
        place = self._at(session_id)
        return place if os.path.lexists(place.log) else None

    def _at(self, session_id: str) -> Place:
        path = os.path.join(self.root, session_id + SUFFIX)
        return Place(session_id=session_id, whole=path, metadata=path, log=path)

    def _new_place(self, session: Session) -> Place:
        return self._at(session.id)

    def _make(self, place: Place, session: Session) -> None:
        fsio.ensure_folder(self.root)
        fsio.replace_file(place.log, [_metadata_line(session, {})], aside=self.control)

    @fsio.told
    def create_whole(self, session: Session, messages: Sequence[Message], change: Change) -> Session:
        """See base.CreatesWhole."""
        check_id(session.id)
        created = clock.normalise(session.created_at) or clock.now()
        numbered = [complete(message, number) for number, message in enumerate(messages)]
        made = change.apply(structs.replace(session, created_at=created, last_active=created))
        with self._locked(session.id, new=True):
            if self._find(session.id) is not None:
                raise SessionExists(f"there is a session {session.id} already", kept="it is unchanged")
            place = self._new_place(made)
            self.folders.check(os.path.dirname(place.log))
            fsio.ensure_folder(self.root)
            lines = (encode_message(message, _TURN) for message in numbered)
            fsio.replace_file(place.log, chain([_metadata_line(made, {})], lines), aside=self.control)
        return self.get(session.id)

    def _line_prefix(self, seq: int, place: Place) -> bytes:
        return _TURN

    def _to_trash(self, place: Place) -> list[str]:
        return [place.whole, quarantine.path_of(place.log)]

    def _load(self, place: Place) -> Metadata:
        line = _first_line(place.log)
        fields: dict[str, Any] = {}
        damage = []
        try:
            value = decode_value(line)
            if isinstance(value, dict) and value.get("type") == "metadata":
                fields = value
            else:
                damage.append(Damage(os.path.basename(place.log), 0, 0, METADATA, "line 1 is not the metadata"))
        except BadLine as error:
            # The line itself is told (and set aside) as an unreadable one of the log.
            damage.append(Damage(os.path.basename(place.log), 0, 0, METADATA, f"line 1: {error}"))
        created = clock.normalise(text_field(fields, "created_at"))
        config = agent_config_of(fields)
        config.model = text_field(fields, "model")
        session = Session(
            id=place.session_id,
            type="spawn",
            agent=text_field(fields, "agent"),
            status=text_field(fields, "status", ACTIVE),
            created_at=created,
            last_active=created,
            title=text_field(fields, "title"),
            summary=text_field(fields, "summary"),
            summary_covers=number_field(fields, "summary_covers"),
            summary_by=text_field(fields, "summary_by"),
            agent_config=config,
            origin=origin_of(fields),
            extra=without(fields, _KNOWN),
        )
        return Metadata(session, fields, damage)

    def _save(self, place: Place, session: Session, fields: dict[str, Any]) -> None:
        descriptor = fsio.open_file(place.log, os.O_RDONLY)
        try:
            size = os.fstat(descriptor).st_size
            # Only a line that was read as metadata is replaced: any other first line stays where it is.
            start = len(_first_line(place.log)) if fields else 0
            rest = fsio.read_blocks(descriptor, start, size)
            fsio.replace_file(place.log, chain([_metadata_line(session, fields)], rest), aside=self.control)
        finally:
            os.close(descriptor)


def _first_line(path: str) -> bytes:
    """The first line with its newline; no more of it than metadata may have."""
    descriptor = fsio.open_file(path, os.O_RDONLY)
    try:
        pieces = []
        for block in fsio.read_blocks(descriptor, 0, min(os.fstat(descriptor).st_size, MAX_METADATA)):
            newline = block.find(b"\n")
            if newline >= 0:
                pieces.append(block[: newline + 1])
                break
            pieces.append(block)
        return b"".join(pieces)
    finally:
        os.close(descriptor)


def _metadata_line(session: Session, fields: dict[str, Any]) -> bytes:
    known: dict[str, Any] = {
        "type": "metadata",
        "session_id": session.id,
        "agent": session.agent,
        "created_at": session.created_at,
        "status": session.status,
    }
    config = session.agent_config
    more = config.command or config.system_prompt_hash or config.tools or "agent_config" in fields
    optional = {
        "model": config.model,
        "title": session.title,
        "summary": session.summary,
        "summary_covers": session.summary_covers,
        "summary_by": session.summary_by,
        "agent_config": agent_config_fields(fields, config) if more else {},
        "continuation": origin_fields(fields, session.origin),
    }
    return encode(merged(fields, known, optional, session.extra)) + b"\n"
