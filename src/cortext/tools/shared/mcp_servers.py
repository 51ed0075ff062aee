"""The names of the MCP servers in a tool's settings."""

from __future__ import annotations

import tomllib
from typing import Any

from cortext.io import durable
from cortext.io.inside import if_inside
from cortext.tools.shared.jsonc import read_object


def servers_of(user: str, project: str, *names: str, key: str = "mcpServers") -> set[str]:
    """Return the names under a key of the user's settings file and of these files of a project."""
    paths = (user, *(if_inside(project, name) for name in names))
    return {server for path in paths for server in names_in(path, key)}


def names_in(path: str, *keys: str) -> set[str]:
    """Return the names under these keys of a JSON or TOML settings file; none if it is missing or invalid."""
    value: Any = _toml(path) if path.endswith(".toml") else read_object(path)
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return named(value)


def named(value: Any) -> set[str]:
    """Return the names in a table of servers, or in a list of tables that each have a name."""
    if isinstance(value, list):
        return {item["name"] for item in value if isinstance(item, dict) and isinstance(item.get("name"), str)}
    return set(value) if isinstance(value, dict) else set()


def _toml(path: str) -> Any:
    try:
        return tomllib.loads(durable.read_text(path))
    except (OSError, ValueError, RecursionError):
        return {}
