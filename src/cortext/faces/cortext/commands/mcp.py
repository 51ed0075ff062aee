"""`cortext mcp`: the server that the AI tools' settings name. Not built yet, and it says so."""

from __future__ import annotations

from cortext.errors import NotBuilt


def run(arguments: list[str]) -> int:
    """One line and exit code 2: the tools show the server as failed, and go on without it."""
    raise NotBuilt("the MCP server is not built yet", hint="`cortext show` and `cortext resume --print` do without it")
