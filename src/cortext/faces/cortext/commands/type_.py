"""`cortext type`: the conversation types of this workspace."""

from __future__ import annotations

import re
from argparse import ArgumentParser

from cortext.errors import UsageError
from cortext.faces.terminal.table import table
from cortext.services import registry
from cortext.services.setup import Setup, add_type, load_manifest
from cortext.wiring import PROGRAM, Wiring


def parser() -> ArgumentParser:
    """The command line."""
    made = ArgumentParser(prog="cortext type", description="List the conversation types of this workspace, or add one.")
    actions = made.add_subparsers(dest="action", metavar="ACTION")
    actions.add_parser("list", help="the types, with their commands")
    add = actions.add_parser("add", help="a type of your own: a prompt and a template to edit")
    add.add_argument("name", help="one word: a-z, 0-9 and -")
    add.add_argument("--description", default="", help="one line on what it is for")
    return made


def run(arguments: list[str]) -> int:
    """List or add."""
    options = parser().parse_args(arguments)
    wiring = Wiring()
    root = wiring.workspace_store().root
    if options.action != "add":
        rows = [(name, kind.command, kind.description) for name, kind in sorted(registry.load(root).types.items())]
        print(table(("TYPE", "COMMAND", "WHAT IT IS FOR"), rows, styles=("cyan",)))
        return 0
    if not re.fullmatch(r"[a-z][a-z0-9-]{0,30}", options.name) or options.name in ("resume", "stop-conversation"):
        raise UsageError(f"not a name for a type: {options.name!r}", hint="one word of a-z, 0-9 and -; resume is taken")
    files = add_type(root, options.name, options.description)
    Setup(root, [wiring.tool(name) for name in load_manifest(root).tools], PROGRAM).install()
    print(f"Added /workspace.{options.name}. Make it your own: edit {files[0]}, then `cortext upgrade`.")
    return 0
