"""Whether the MCP SDK is installed: an optional dependency, without which `cortext mcp` cannot run."""

from __future__ import annotations

from importlib.util import find_spec

from cortext.distribution import install_hint
from cortext.errors import ConfigError

EXTRA = "mcp"


def is_installed() -> bool:
    """Whether `cortext mcp` can run here."""
    return find_spec("mcp") is not None


def require() -> None:
    """Raise ConfigError if it cannot."""
    if not is_installed():
        raise ConfigError(
            "the MCP server needs the MCP SDK, which is not installed",
            kept="commands, hooks and slash commands work without it",
            hint=install_hint(EXTRA),
        )
