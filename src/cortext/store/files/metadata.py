"""The metadata of a session: a JSON file that is always replaced as a whole, and the keys that each layout uses."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import msgspec

from cortext.io import durable
from cortext.model import clock
from cortext.model.session import ACTIVE, AgentConfig, Session
from cortext.store.base import GIT_MARKS, METADATA, Damage
from cortext.store.files.fields import (
    agent_config_fields,
    agent_config_of,
    merged,
    number_field,
    origin_fields,
    origin_of,
    text_field,
    without,
)
from cortext.store.files.lines import BadLine, decode_value, encode_pretty
from cortext.store.files.merge import merge_fields, sides_of

MAX_METADATA = 16 << 20
COUNTS = ("message_count", "aside_count", "token_count", "summary_covers", "current_count", "archive_count")
_BOM = b"\xef\xbb\xbf"


class Metadata(msgspec.Struct):
    """A metadata file as it was read: the session, its raw fields, and its damage."""

    session: Session
    fields: dict[str, Any]
    damage: list[Damage] = []


class MetadataCodec(msgspec.Struct, frozen=True, kw_only=True):
    """The keys of a layout's metadata: from each key to its attribute of Session, in the order of the file.

    `model` is `agent_config.model`: a layout that has a key for it writes `agent_config` only if that contains more.
    Counts are written but never read: the log is counted instead.
    """

    required: Mapping[str, str]
    optional: Mapping[str, str]  # written only if they have a value
    constants: Mapping[str, str] = {}  # fixed keys and values at the start of the file
    type: str = ""  # the type of every session of the layout, if the file does not contain it

    def decode(self, session_id: str, fields: dict[str, Any]) -> Session:
        """Return the session that these fields describe."""
        keys = {attribute: key for key, attribute in (*self.required.items(), *self.optional.items())}

        def text(attribute: str, default: str = "") -> str:
            return text_field(fields, keys[attribute], default) if attribute in keys else default

        config = agent_config_of(fields)
        if "model" in keys:
            config.model = text("model")
        return Session(
            id=session_id,
            type=text("type", self.type),
            title=text("title"),
            status=text("status", ACTIVE),
            created_at=clock.normalise(text("created_at")),
            last_active=clock.normalise(text("last_active")),
            summary=text("summary"),
            summary_covers=self.covered(fields),
            summary_by=text("summary_by"),
            agent=text("agent"),
            agent_config=config,
            origin=origin_of(fields),
            extra=without(fields, (*self.constants, *self.required, *self.optional)),
        )

    def covered(self, fields: dict[str, Any]) -> int:
        """Return how many messages the summary covers; one of another program covers those that its file counts."""
        keys = {attribute: key for key, attribute in (*self.required.items(), *self.optional.items())}
        count = number_field(fields, keys.get("summary_covers", ""))
        if count or not text_field(fields, keys.get("summary", "")) or text_field(fields, keys.get("summary_by", "")):
            return count
        return number_field(fields, keys.get("message_count", ""))

    def encode(self, session: Session, fields: dict[str, Any], **counts: int) -> dict[str, Any]:
        """Return the fields to write, given the old `fields`; `counts` are values that Session does not have."""
        config = session.agent_config
        needs_config = config != AgentConfig(model=config.model) or "agent_config" in fields

        def value(attribute: str) -> Any:
            match attribute:
                case "model":
                    return config.model
                case "agent_config":
                    return agent_config_fields(fields, config) if needs_config or "model" not in self.optional else {}
                case "origin":
                    return origin_fields(fields, session.origin)
                case _:
                    return counts[attribute] if attribute in counts else getattr(session, attribute)

        constants = {key: text_field(fields, key, default) for key, default in self.constants.items()}
        required = {key: value(attribute) for key, attribute in self.required.items()}
        optional = {key: value(attribute) for key, attribute in self.optional.items()}
        return merged(fields, {**constants, **required}, optional, session.extra)


def load_fields(path: str) -> tuple[dict[str, Any], list[Damage]]:
    """Return the fields of a JSON metadata file and its damage. A missing file has no fields."""
    name = os.path.basename(path)
    try:
        descriptor = durable.open_file(path, os.O_RDONLY)
    except FileNotFoundError:
        return {}, [Damage(name, 0, 0, METADATA, "the file is missing")]
    try:
        size = os.fstat(descriptor).st_size
        if size > MAX_METADATA:
            return {}, [Damage(name, 0, size, METADATA, f"{size:,} bytes: too large for metadata")]
        raw = b"".join(durable.read_blocks(descriptor, 0, size))
    finally:
        os.close(descriptor)
    try:
        fields = decode_value(raw.removeprefix(_BOM))
    except BadLine as error:
        merged_fields = _merge_conflict(raw)
        if merged_fields is not None:
            return merged_fields, [Damage(name, 0, len(raw), METADATA, GIT_MARKS)]
        return {}, [Damage(name, 0, len(raw), METADATA, str(error))]
    if not isinstance(fields, dict):
        return {}, [Damage(name, 0, len(raw), METADATA, "not a JSON object")]
    return fields, []


def _merge_conflict(raw: bytes) -> dict[str, Any] | None:
    """Return the merged fields of a file with git conflict markers; None for any other file."""
    found = sides_of(raw)
    if found is None:
        return None
    try:
        ours, theirs = (decode_value(b"".join(side)) for side in (found.ours, found.theirs))
    except BadLine:
        return None
    if not isinstance(ours, dict) or not isinstance(theirs, dict):
        return None
    try:
        base = decode_value(b"".join(found.base))
    except BadLine:  # by default git does not show the ancestor
        base = None
    common = {name: value for name, value in ours.items() if theirs.get(name) == value}
    return merge_fields(base if isinstance(base, dict) else common, ours, theirs)


def save_fields(path: str, fields: dict[str, Any], *, aside: str = "") -> None:
    """Write a metadata file atomically; `aside` as in durable.replace_file."""
    durable.replace_file(path, [encode_pretty(fields)], aside=aside)


def impossible_counts(path: str, fields: dict[str, Any]) -> list[Damage]:
    """Return the impossible counts of a metadata file as damage. The next write or repair counts again."""
    name = os.path.basename(path)
    return [
        Damage(name, 0, 0, METADATA, f"{field} is not a count")
        for field in COUNTS
        if isinstance(fields.get(field), int | float) and number_field(fields, field) != fields[field]
    ]
