"""`cortext type`: list, add and remove the conversation types of this workspace."""

from __future__ import annotations

import re
from argparse import ArgumentParser

from cortext.errors import UsageError
from cortext.faces.terminal.reading import stores_for
from cortext.faces.terminal.table import table
from cortext.model.asking import NAMES
from cortext.safety import terminal
from cortext.services.workspace import registry
from cortext.services.workspace.known import PROGRAM
from cortext.services.workspace.setup import Setup, add_type, load_manifest, remove_type
from cortext.wiring import tools
from cortext.wiring.stores import Stores


def parser() -> ArgumentParser:
    """Return the parser of this command."""
    made = ArgumentParser(
        prog="cortext type",
        description="List the conversation types of this workspace, add one, or remove it.",
        epilog='example:  cortext type add retro --description "look back on a week"',
    )
    actions = made.add_subparsers(dest="action", metavar="ACTION")
    actions.add_parser("list", help="list the types with their commands")
    add = actions.add_parser("add", help="add a type of your own: a prompt and a template to edit")
    add.add_argument("name", help="the name: one word of a-z, 0-9 and -")
    add.add_argument("--description", default="", help="what it is for, in one line")
    add.add_argument("--no-sessions", action="store_true", help="add only a prompt: do not store its conversations")
    remove = actions.add_parser("remove", help="remove a type of your own; its conversations stay")
    remove.add_argument("name", help="the name of the type")
    return made


def run(arguments: list[str]) -> int:
    """List, add or remove."""
    options = parser().parse_args(arguments)
    root = stores_for(only_reads=options.action not in ("add", "remove")).here()
    if options.action == "remove":
        return _remove(root, options.name)
    if options.action != "add":
        types = sorted(registry.load(root).types.items())
        rows = [
            (name, kind.command, kind.description + ("" if kind.sessions else " (no sessions)")) for name, kind in types
        ]
        print(table(("TYPE", "COMMAND", "WHAT IT IS FOR"), rows, styles=("cyan",)))
        return 0
    if not re.fullmatch(r"[a-z][a-z0-9-]{0,30}", options.name) or options.name in NAMES:
        raise UsageError(
            f"invalid type name {options.name!r}",
            hint=f"use one word of a-z, 0-9 and -, other than {', '.join(NAMES[:-1])} or {NAMES[-1]}",
        )
    files = add_type(root, options.name, options.description, sessions=not options.no_sessions)
    _install(root)
    print(f"Added /workspace.{options.name}. Edit {files[0]}, then run `cortext upgrade`.")
    return 0


def _remove(root: str, name: str) -> int:
    kept = remove_type(root, name)
    _install(root)
    print(terminal.line(f"Removed /workspace.{name}. Its conversations stay as they are."))
    for path in kept:
        print(terminal.line(f"  kept, because you edited it: {path}"))
    return 0


def _install(root: str) -> None:
    """Update the slash commands of the tools."""
    Stores(root)  # settings that cannot be used are reported before anything is written
    Setup(root, [tools.installer(name) for name in load_manifest(root).tools], PROGRAM).install()
