"""`cortext trust`: let the settings of this workspace do everything."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser

from cortext.config import folders
from cortext.config.load import workspace_values
from cortext.config.schema import SETTINGS
from cortext.config.trust import trust
from cortext.safety import terminal
from cortext.safety.secrets.masking import mask
from cortext.wiring.stores import Stores


def parser() -> ArgumentParser:
    """The command line."""
    made = ArgumentParser(
        prog="cortext trust",
        description="A workspace comes with settings of its own (.workspace/config.toml), perhaps from a stranger's "
        "repository. Those that could run commands, send data elsewhere or move stores are ignored until you say this. "
        "They are shown first. When the file changes, it is asked about again.",
    )
    made.add_argument("--yes", action="store_true", help="do not ask")
    return made


def run(arguments: list[str]) -> int:
    """Show what was ignored, and trust it."""
    options = parser().parse_args(arguments)
    stores = Stores()
    root = stores.here()
    if not os.path.exists(folders.workspace_file(root)):
        print(terminal.line(f"{root} has no settings of its own: there is nothing to trust."))
        return 0
    ignored = stores.settings.ignored
    print(terminal.line(f"The settings in {folders.workspace_file(root)} that were ignored until now:"))
    asked = workspace_values(root)
    for name in sorted(ignored):
        print(terminal.line(f"  {name} = {mask(str(asked[name])).text}  ({SETTINGS[name].help})"))
    if not ignored:
        print("  (none: it is trusted already, or asks for nothing that needs trust)")
    for line in stores.settings.warnings():
        print(terminal.line(f"  warning: {line}"))
    if ignored and sys.stdin.isatty() and not options.yes:
        answer = input("Trust them? [y/N] ")
        if answer.strip().lower() not in ("y", "yes"):
            print("Nothing was changed.")
            return 1
    trust(root)
    print(terminal.line(f"Trusted: the settings of {root}, as they are now."))
    return 0
