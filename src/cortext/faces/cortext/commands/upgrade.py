"""`cortext upgrade` and `cortext uninstall`: refresh, or take out, what init put in."""

from __future__ import annotations

import os
from argparse import ArgumentParser

from cortext.faces.cortext.commands._setup_report import print_report, report_json
from cortext.safety import terminal
from cortext.services.workspace.known import PROGRAM
from cortext.services.workspace.setup import Setup, load_manifest
from cortext.services.workspace.timer import timer_path
from cortext.wiring.stores import Stores
from cortext.wiring.tools import installer

_ABOUT = {
    "upgrade": "Bring the prompts, templates, commands and hooks of this workspace up to this version of cortext. "
    "Files that you edited are kept and named.",
    "uninstall": "Take out what `cortext init` put into this workspace. Your conversations and every file that you "
    "edited stay.",
}


def parser(name: str = "upgrade") -> ArgumentParser:
    """The command line."""
    made = ArgumentParser(prog=f"cortext {name}", description=_ABOUT[name])
    made.add_argument("-n", "--dry-run", action="store_true", help="only say what would be done")
    made.add_argument("--json", action="store_true", help="the report as JSON")
    return made


def run(arguments: list[str], name: str = "upgrade") -> int:
    """Refresh, and say what was kept."""
    options = parser(name).parse_args(arguments)
    root = Stores().here()
    tools = [installer(tool) for tool in load_manifest(root).tools]
    setup = Setup(root, tools, PROGRAM, dry_run=options.dry_run)
    report = setup.install() if name == "upgrade" else setup.uninstall()
    if options.json:
        print(report_json(report))
    else:
        print_report(report, dry_run=options.dry_run, taken_out=name == "uninstall")
        timer = timer_path()
        if name == "uninstall" and os.path.exists(timer):
            print(f"  the timer stays, for all your workspaces: {terminal.line(timer)}; stop it with:")
            print("  systemctl --user disable --now cortext-sweep.timer")
    return 0
