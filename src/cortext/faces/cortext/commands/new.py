"""`cortext new`: start a conversation from the shell."""

from __future__ import annotations

import json
import os
from argparse import ArgumentParser

from cortext.safety import terminal
from cortext.services.workspace.lifecycle import begin
from cortext.wiring.stores import Stores


def parser() -> ArgumentParser:
    """Return the parser of this command."""
    made = ArgumentParser(
        prog="cortext new",
        description="Start a conversation: create its folder, its notes from the template, and its session.",
        epilog='example:  cortext new brainstorm "API design"',
    )
    made.add_argument("type", help="brainstorm, debug, plan, learn, meeting, review, or a type of your own")
    made.add_argument("topic", nargs="*", help="the topic, which becomes the title")
    made.add_argument("--json", action="store_true", help="print the session as JSON")
    return made


def run(arguments: list[str]) -> int:
    """Create it and print its path."""
    options = parser().parse_args(arguments)
    named_store = Stores().workspace_store()
    session = begin(named_store, options.type, " ".join(options.topic))
    if options.json:
        print(json.dumps({"id": session.id, "path": session.path, "title": session.title}, ensure_ascii=False))
        return 0
    print(terminal.line(f"Started {session.id} in {os.path.relpath(session.path)}"))
    print(f"Open it in your AI tool: cortext resume {session.id}")
    return 0
