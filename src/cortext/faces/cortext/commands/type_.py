"""`cortext type`: the conversation types of this workspace."""

from __future__ import annotations

import re
from argparse import ArgumentParser

from cortext.errors import UsageError
from cortext.faces.terminal.table import table
from cortext.safety import terminal
from cortext.services.workspace import registry
from cortext.services.workspace.known import PROGRAM
from cortext.services.workspace.setup import Setup, add_type, load_manifest, remove_type
from cortext.wiring import tools
from cortext.wiring.stores import Stores


def parser() -> ArgumentParser:
    """The command line."""
    made = ArgumentParser(
        prog="cortext type", description="List the conversation types of this workspace, add one, or remove it."
    )
    actions = made.add_subparsers(dest="action", metavar="ACTION")
    actions.add_parser("list", help="the types, with their commands")
    add = actions.add_parser("add", help="a type of your own: a prompt and a template to edit")
    add.add_argument("name", help="one word: a-z, 0-9 and -")
    add.add_argument("--description", default="", help="one line on what it is for")
    add.add_argument("--no-sessions", action="store_true", help="only a prompt: its conversations are not kept")
    remove = actions.add_parser("remove", help="take out a type of your own; its conversations stay")
    remove.add_argument("name", help="the type")
    return made


def run(arguments: list[str]) -> int:
    """List, add or remove."""
    options = parser().parse_args(arguments)
    root = Stores().here()
    if options.action == "remove":
        return _remove(root, options.name)
    if options.action != "add":
        types = sorted(registry.load(root).types.items())
        rows = [
            (name, kind.command, kind.description + ("" if kind.sessions else " (keeps no session)"))
            for name, kind in types
        ]
        print(table(("TYPE", "COMMAND", "WHAT IT IS FOR"), rows, styles=("cyan",)))
        return 0
    if not re.fullmatch(r"[a-z][a-z0-9-]{0,30}", options.name) or options.name in ("resume", "stop-conversation"):
        raise UsageError(f"not a name for a type: {options.name!r}", hint="one word of a-z, 0-9 and -; resume is taken")
    files = add_type(root, options.name, options.description, sessions=not options.no_sessions)
    _install(root)
    print(f"Added /workspace.{options.name}. Make it your own: edit {files[0]}, then `cortext upgrade`.")
    return 0


def _remove(root: str, name: str) -> int:
    kept = remove_type(root, name)
    _install(root)
    print(terminal.line(f"Removed /workspace.{name}. Its conversations stay as they are."))
    for path in kept:
        print(terminal.line(f"  kept, because you edited it: {path}"))
    return 0


def _install(root: str) -> None:
    """Bring the slash commands of the tools up to date."""
    Setup(root, [tools.installer(name) for name in load_manifest(root).tools], PROGRAM).install()
