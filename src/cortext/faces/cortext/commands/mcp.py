"""`cortext mcp`: the MCP server that the AI tools' settings name."""

from __future__ import annotations

from argparse import ArgumentParser


def parser() -> ArgumentParser:
    """Return the parser of this command."""
    return ArgumentParser(
        prog="cortext mcp",
        description="Serve stored conversations to an AI tool over standard input and output (MCP): search, read, "
        "resume and save them. AI tools start it themselves; `cortext init` configures them.",
    )


def run(arguments: list[str]) -> int:
    """Serve until the tool closes the connection."""
    parser().parse_args(arguments)
    from cortext.faces.cortext.commands._finding import index_later
    from cortext.services.workspace import mcp_sdk

    mcp_sdk.require()

    # The server is a face of its own: imported by name, as every command is.
    status: int = __import__("cortext.faces.mcp.main", fromlist=["run"]).run(index_later)
    return status
