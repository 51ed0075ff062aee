"""`cortext mcp`: serve past conversations to the AI tool that starts it, over standard input and output.

The SDK, and what the tools need, are imported by the first call: the tool waits for the start, which opens no stores.
"""

from __future__ import annotations

import os
import signal
import sys
from argparse import ArgumentParser
from typing import TYPE_CHECKING, Any

from cortext.errors import CortextError
from cortext.faces.mcp.pages import ToolAnswer
from cortext.faces.terminal.run import index_later
from cortext.safety import terminal
from cortext.services.projects.workspaces import find_workspace
from cortext.services.workspace import installed_tools, running_chats

if TYPE_CHECKING:
    from cortext.faces.mcp.context import Context


def parser() -> ArgumentParser:
    """Return the parser of this command."""
    return ArgumentParser(
        prog="cortext mcp",
        description="Serve stored conversations to an AI tool over standard input and output (MCP): search, read, "
        "resume and save them. AI tools start it themselves; `cortext init` configures them.",
    )


def run(arguments: list[str]) -> int:
    """Serve until the client closes standard input."""
    parser().parse_args(arguments)
    installed_tools.require_mcp_sdk()
    # The thread that reads standard input cannot be interrupted: a tool that stops us by a signal must not wait for it.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    folder = os.getcwd()
    opened: Context | None = None

    def call(name: str, arguments: dict[str, Any], client: str) -> ToolAnswer:
        # Built in the thread that uses it.
        nonlocal opened
        from cortext.faces.mcp import context, tools

        current = opened or context.Context(folder, index_later)
        current.client = client
        # After an unexpected error, the next call opens everything again.
        opened = None
        try:
            result = tools.call(current, name, arguments)
        except CortextError:
            opened = current
            raise
        opened = current
        return result

    def listed(names: list[str]) -> None:
        try:
            running_chats.note_server(find_workspace(folder), [f"mcp__cortext__{name}" for name in names])
        except (OSError, CortextError) as error:
            print(terminal.line(f"cortext: {error}"), file=sys.stderr)

    from cortext.faces.mcp.server import serve

    try:
        serve(call, listed)
    finally:
        running_chats.forget_server()
    return 0
