"""`cortext new`: begin a conversation from the shell."""

from __future__ import annotations

import json
import os
from argparse import ArgumentParser

from cortext.safety import terminal
from cortext.services.workspace.lifecycle import begin
from cortext.wiring.stores import Stores


def parser() -> ArgumentParser:
    """The command line."""
    made = ArgumentParser(
        prog="cortext new",
        description="Begin a conversation: its folder, its notes from the template, its session.",
        epilog='example:  cortext new brainstorm "API design"',
    )
    made.add_argument("type", help="brainstorm, debug, plan, learn, meeting, review, or a type of your own")
    made.add_argument("topic", nargs="*", help="what it is about")
    made.add_argument("--json", action="store_true", help="the session as JSON")
    return made


def run(arguments: list[str]) -> int:
    """Make it and say where."""
    options = parser().parse_args(arguments)
    named_store = Stores().workspace_store()
    session = begin(named_store, options.type, " ".join(options.topic))
    if options.json:
        print(json.dumps({"id": session.id, "path": session.path, "title": session.title}, ensure_ascii=False))
        return 0
    print(terminal.line(f"Began {session.id} in {os.path.relpath(session.path)}"))
    print(f"Talk about it in your AI tool: cortext resume {session.id}")
    return 0
