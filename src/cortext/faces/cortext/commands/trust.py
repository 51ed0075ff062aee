"""`cortext trust`: trust all settings of this workspace."""

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
    """Return the parser of this command."""
    made = ArgumentParser(
        prog="cortext trust",
        description="Trust the settings of this workspace (.workspace/config.toml), which may come from a stranger's "
        "repository. Until you do, settings that could run commands, send data elsewhere or move stores are ignored. "
        "They are shown before you confirm. If the file changes, it must be trusted again.",
        epilog="example:  cortext trust",
    )
    made.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    return made


def run(arguments: list[str]) -> int:
    """Show the ignored settings, and trust them."""
    options = parser().parse_args(arguments)
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
