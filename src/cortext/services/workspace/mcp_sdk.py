"""Whether the MCP SDK is installed: an optional dependency, without which `cortext mcp` cannot run."""

from __future__ import annotations

from importlib.util import find_spec

from cortext.errors import ConfigError, install_hint

EXTRA = "mcp"


def is_installed() -> bool:
    """Whether `cortext mcp` can run here."""
    return find_spec("mcp") is not None


def require() -> None:
    """Raise ConfigError where it cannot."""
    if not is_installed():
        raise ConfigError(
            "the MCP server needs the MCP SDK, which is not installed",
            kept="commands, hooks and slash commands work without it",
            hint=install_hint(EXTRA),
        )
