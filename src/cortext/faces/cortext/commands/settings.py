"""`cortext type` and `cortext trust`: what a workspace may say about itself."""

from __future__ import annotations

import os
import re
import sys
from argparse import ArgumentParser

from cortext.config import folders
from cortext.config.load import trust, workspace_values
from cortext.config.schema import SETTINGS
from cortext.errors import UsageError
from cortext.faces.terminal.args import stores_for
from cortext.faces.terminal.run import Command
from cortext.faces.terminal.table import table
from cortext.model.asides import OWN_COMMANDS
from cortext.safety import terminal
from cortext.safety.secrets.masking import mask
from cortext.services.projects.workspaces import PROGRAM
from cortext.services.workspace import registry
from cortext.services.workspace.registry import add_type, remove_type
from cortext.services.workspace.setup import Setup, load_manifest
from cortext.wiring import tools
from cortext.wiring.stores import Stores


def type_parser() -> ArgumentParser:
    """Return the parser."""
    command = ArgumentParser(
        prog="cortext type",
        description="List the conversation types of this workspace, add one, or remove it.",
        epilog='example:  cortext type add retro --description "look back on a week"',
    )
    actions = command.add_subparsers(dest="action", metavar="ACTION")
    actions.add_parser("list", help="list the types with their commands")
    add = actions.add_parser("add", help="add a type of your own: a prompt and a template to edit")
    add.add_argument("name", help="the name: one word of a-z, 0-9 and -")
    add.add_argument("--description", default="", help="what it is for, in one line")
    add.add_argument("--no-sessions", action="store_true", help="add only a prompt: do not store its conversations")
    remove = actions.add_parser("remove", help="remove a type of your own; its conversations stay")
    remove.add_argument("name", help="the name of the type")
    return command


def run_type(arguments: list[str]) -> int:
    """List, add or remove."""
    options = type_parser().parse_args(arguments)
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
    if not re.fullmatch(r"[a-z][a-z0-9-]{0,30}", options.name) or options.name in OWN_COMMANDS:
        raise UsageError(
            f"invalid type name {options.name!r}",
            hint=f"use one word of a-z, 0-9 and -, other than {', '.join(OWN_COMMANDS[:-1])} or {OWN_COMMANDS[-1]}",
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


def trust_parser() -> ArgumentParser:
    """Return the parser."""
    command = ArgumentParser(
        prog="cortext trust",
        description="Trust the settings of this workspace (.workspace/config.toml), which may come from a stranger's "
        "repository. Until you do, settings that could run commands, send data elsewhere or move stores are ignored. "
        "They are shown before you confirm. If the file changes, it must be trusted again.",
        epilog="example:  cortext trust",
    )
    command.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    return command


def run_trust(arguments: list[str]) -> int:
    """Show the ignored settings, and trust them."""
    options = trust_parser().parse_args(arguments)
    stores = Stores()
    root = stores.here()
    if not os.path.exists(folders.workspace_file(root)):
        print(terminal.line(f"{root} has no settings of its own: nothing to trust."))
        return 0
    ignored = stores.settings.ignored
    print(terminal.line(f"The settings in {folders.workspace_file(root)} that are ignored:"))
    values = workspace_values(root)
    for name in sorted(ignored):
        print(terminal.line(f"  {name} = {mask(str(values[name])).text}  ({SETTINGS[name].help})"))
    if not ignored:
        print("  (none: the file is trusted already, or has no setting that needs trust)")
    for line in stores.settings.warnings():
        print(terminal.line(f"  warning: {line}"))
    if ignored and sys.stdin.isatty() and not options.yes:
        answer = input("Trust them? [y/N] ")
        if answer.strip().lower() not in ("y", "yes"):
            print("Nothing was changed.")
            return 1
    trust(root)
    print(terminal.line(f"Trusted the current settings of {root}."))
    return 0


TYPE = Command(type_parser, run_type)
TRUST = Command(trust_parser, run_trust)
