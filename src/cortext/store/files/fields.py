"""Values out of a JSON object that another program may have written, and back into it.

A field of ours that holds something unexpected reads as missing; fields that we do not know survive a write.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from cortext.model.session import AgentConfig, Origin

MAX_COUNT = 2**53  # what every reader of JSON and every database can hold, sums of them included


def text_field(fields: dict[str, Any], name: str, default: str = "") -> str:
    """A field that should be a text."""
    value = fields.get(name)
    return value if isinstance(value, str) else default


def number_field(fields: dict[str, Any], name: str) -> int:
    """A field that should count something: what no count can be reads as 0."""
    value = fields.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < MAX_COUNT else 0


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
