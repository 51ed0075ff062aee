"""Metadata files: a JSON object, replaced as a whole; what we do not know in it survives.

A field of ours may hold what we did not expect (another program wrote it): it then reads as missing.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from cortext.io import files as fsio
from cortext.model.session import AgentConfig, Origin
from cortext.store.base import GIT_MARKS, METADATA, Damage
from cortext.store.files.lines import BadLine, decode_value, encode_pretty

MAX_METADATA = 16 << 20
MAX_COUNT = 2**53  # what every reader of JSON and every database can hold, sums of them included
COUNTS = ("message_count", "token_count", "summary_covers", "current_count", "archive_count")
_BOM = b"\xef\xbb\xbf"


def load_fields(path: str) -> tuple[dict[str, Any], list[Damage]]:
    """The fields of a JSON metadata file, and what is wrong with it. A missing file has no fields."""
    name = os.path.basename(path)
    try:
        descriptor = fsio.open_file(path, os.O_RDONLY)
    except FileNotFoundError:
        return {}, [Damage(name, 0, 0, METADATA, "the file is missing")]
    try:
        size = os.fstat(descriptor).st_size
        if size > MAX_METADATA:
            return {}, [Damage(name, 0, size, METADATA, f"{size:,} bytes: too large for metadata")]
        raw = b"".join(fsio.read_blocks(descriptor, 0, size))
    finally:
        os.close(descriptor)
    try:
        fields = decode_value(raw.removeprefix(_BOM))
    except BadLine as error:
        merged = _both_sides(raw)
        if merged is not None:
            return merged, [Damage(name, 0, len(raw), METADATA, GIT_MARKS)]
        return {}, [Damage(name, 0, len(raw), METADATA, str(error))]
    if not isinstance(fields, dict):
        return {}, [Damage(name, 0, len(raw), METADATA, "not a JSON object")]
    return fields, []


def _both_sides(raw: bytes) -> dict[str, Any] | None:
    """The fields of a file in which git marked a conflict, merged by our rules; None where it is something else."""
    from cortext.store.files import conflicts, merge

    found = conflicts.sides(raw)
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
    except BadLine:  # git does not show the ancestor unless it is asked to
        base = None
    common = {name: value for name, value in ours.items() if theirs.get(name) == value}
    return merge.merge_fields(base if isinstance(base, dict) else common, ours, theirs)


def save_fields(path: str, fields: dict[str, Any], *, aside: str = "") -> None:
    """Write a metadata file, atomically; `aside` as in fsio.replace_file."""
    fsio.replace_file(path, [encode_pretty(fields)], aside=aside)


def text_field(fields: dict[str, Any], name: str, default: str = "") -> str:
    """A field that should be a text."""
    value = fields.get(name)
    return value if isinstance(value, str) else default


def number_field(fields: dict[str, Any], name: str) -> int:
    """A field that should count something: what no count can be reads as 0."""
    value = fields.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MAX_COUNT else 0


def impossible_counts(path: str, fields: dict[str, Any]) -> list[Damage]:
    """The counts in a metadata file that cannot be true. They are counted anew by the next write, or a repair."""
    name = os.path.basename(path)
    return [
        Damage(name, 0, 0, METADATA, f"{field} is not a count")
        for field in COUNTS
        if isinstance(fields.get(field), int | float) and number_field(fields, field) != fields[field]
    ]


def object_field(fields: dict[str, Any], name: str) -> dict[str, Any]:
    """A field that should be an object."""
    value = fields.get(name)
    return value if isinstance(value, dict) else {}


def without(fields: dict[str, Any], known: Iterable[str]) -> dict[str, Any]:
    """The fields that we do not know."""
    drop = set(known)
    return {name: value for name, value in fields.items() if name not in drop}


def merged(
    fields: dict[str, Any], known: dict[str, Any], optional: dict[str, Any], extra: dict[str, Any]
) -> dict[str, Any]:
    """The fields to write: the old ones, ours over them, and what a caller added that is not ours.

    An optional field is written only where it says something, or did before (in a way that we know).
    """
    missing = object()
    ours = {
        name: value for name, value in optional.items() if value or isinstance(fields.get(name, missing), type(value))
    }
    return {**fields, **known, **ours, **without(extra, (*known, *optional))}


def agent_config_of(fields: dict[str, Any]) -> AgentConfig:
    """What `agent_config` says, as far as it can be understood."""
    config = object_field(fields, "agent_config")
    tools = config.get("tools")
    return AgentConfig(
        command=text_field(config, "command"),
        system_prompt_hash=text_field(config, "system_prompt_hash"),
        model=text_field(config, "model"),
        tools=[tool for tool in tools if isinstance(tool, str)] if isinstance(tools, list) else [],
    )


def agent_config_fields(fields: dict[str, Any], config: AgentConfig) -> dict[str, Any]:
    """`agent_config` with what is new in it; what it held that we do not understand stays."""
    old, before = object_field(fields, "agent_config"), agent_config_of(fields)
    new = {
        "command": config.command,
        "system_prompt_hash": config.system_prompt_hash,
        "model": config.model,
        "tools": config.tools,
    }
    return {**old, **{name: value for name, value in new.items() if name not in old or value != getattr(before, name)}}


def origin_of(fields: dict[str, Any]) -> Origin:
    """What `continuation` says: the AI tool and its own session id."""
    origin = object_field(fields, "continuation")
    return Origin(tool=text_field(origin, "tool"), session_id=text_field(origin, "session_id"))


def origin_fields(fields: dict[str, Any], origin: Origin) -> dict[str, Any]:
    """`continuation`, with what it held that we do not know; empty where there is nothing to say."""
    old, before = object_field(fields, "continuation"), origin_of(fields)
    new = {"tool": origin.tool, "session_id": origin.session_id}
    return {**old, **{name: value for name, value in new.items() if value != getattr(before, name)}}
