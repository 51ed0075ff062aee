"""Reading and writing the fields of a JSON object that another program may have written.

A known field with an unexpected value reads as missing; unknown fields survive a write.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cortext.model.session import AgentConfig, Origin

MAX_COUNT = 2**53  # every JSON reader and every database can hold it, and sums of such values


def text_field(fields: dict[str, Any], name: str, default: str = "") -> str:
    """Return the value of a text field, or the default if it is anything else."""
    value = fields.get(name)
    return value if isinstance(value, str) else default


def number_field(fields: dict[str, Any], name: str) -> int:
    """Return the value of a count, or 0 if it cannot be one."""
    value = fields.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MAX_COUNT else 0


def object_field(fields: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the value of an object field, or an empty object if it is anything else."""
    value = fields.get(name)
    return value if isinstance(value, dict) else {}


def without(fields: dict[str, Any], known: Iterable[str]) -> dict[str, Any]:
    """Return the fields that are not known."""
    excluded = set(known)
    return {name: value for name, value in fields.items() if name not in excluded}


def merged(
    fields: dict[str, Any], known: dict[str, Any], optional: dict[str, Any], extra: dict[str, Any]
) -> dict[str, Any]:
    """Return the fields to write: the old ones, updated with the known ones and with unknown ones in `extra`.

    An optional field is written only if it has a value, or if the old fields have one of the same type.
    """
    missing = object()
    written = {
        name: value for name, value in optional.items() if value or isinstance(fields.get(name, missing), type(value))
    }
    return {**fields, **known, **written, **without(extra, (*known, *optional))}


def agent_config_of(fields: dict[str, Any]) -> AgentConfig:
    """Return the contents of `agent_config`; values of an unexpected type are left out."""
    config = object_field(fields, "agent_config")

    def names(key: str) -> list[str]:
        found = config.get(key)
        return [name for name in found if isinstance(name, str)] if isinstance(found, list) else []

    return AgentConfig(
        command=text_field(config, "command"),
        system_prompt_hash=text_field(config, "system_prompt_hash"),
        model=text_field(config, "model"),
        tools=names("tools"),
        tools_configured=names("tools_configured"),
    )


def agent_config_fields(fields: dict[str, Any], config: AgentConfig) -> dict[str, Any]:
    """Return `agent_config` updated with what has changed; its unknown fields are kept."""
    old, before = object_field(fields, "agent_config"), agent_config_of(fields)
    new = {
        "command": config.command,
        "system_prompt_hash": config.system_prompt_hash,
        "model": config.model,
        "tools": config.tools,
    }
    if config.tools_configured or before.tools_configured:  # most have none
        new["tools_configured"] = config.tools_configured
    return {**old, **{name: value for name, value in new.items() if name not in old or value != getattr(before, name)}}


def origin_of(fields: dict[str, Any]) -> Origin:
    """Return the contents of `continuation`: the AI tool and its own session id."""
    origin = object_field(fields, "continuation")
    return Origin(tool=text_field(origin, "tool"), session_id=text_field(origin, "session_id"))


def origin_fields(fields: dict[str, Any], origin: Origin) -> dict[str, Any]:
    """Return `continuation` updated with what has changed, its unknown fields included; empty without an origin."""
    old, before = object_field(fields, "continuation"), origin_of(fields)
    new = {"tool": origin.tool, "session_id": origin.session_id}
    return {**old, **{name: value for name, value in new.items() if value != getattr(before, name)}}
