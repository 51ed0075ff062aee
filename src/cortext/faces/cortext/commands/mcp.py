"""`cortext mcp`: the MCP server that the AI tools' settings name."""

from __future__ import annotations

from argparse import ArgumentParser


def parser() -> ArgumentParser:
    """The command line."""
    return ArgumentParser(
        prog="cortext mcp",
        description="Answer an AI tool over standard input and output (MCP): search, read, resume and save the "
        "conversations that are kept. AI tools start it by themselves; `cortext init` tells them how.",
    )


def run(arguments: list[str]) -> int:
    """Serve until the tool goes away."""
    parser().parse_args(arguments)
    from cortext.faces.cortext.commands._finding import index_later
    from cortext.services.workspace import mcp_sdk

    mcp_sdk.require()

    # The server is a face of its own: it is found by name, as every command is.
    status: int = __import__("cortext.faces.mcp.main", fromlist=["run"]).run(index_later)
    return status
