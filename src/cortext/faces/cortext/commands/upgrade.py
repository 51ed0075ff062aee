"""`cortext upgrade` and `cortext uninstall`: update or remove what init added."""

from __future__ import annotations

import os
from argparse import ArgumentParser

from cortext.config.schema import CALLS
from cortext.faces.cortext.commands._setup_report import print_report, report_json
from cortext.safety import terminal
from cortext.services.capture.rescue import restore_settings
from cortext.services.workspace.known import PROGRAM
from cortext.services.workspace.setup import Setup, load_manifest
from cortext.services.workspace.timer import timer_path
from cortext.wiring.stores import Stores
from cortext.wiring.tools import installer
from cortext.wiring.tools import tools as all_tools

_ABOUT = {
    "upgrade": "Update the prompts, templates, commands and hooks of this workspace to this version of cortext. "
    "Files that you edited are kept and named.",
    "uninstall": "Remove what `cortext init` added to this workspace. Your conversations and every file that you "
    "edited stay. `cortext init` adds it again.",
}


def parser(name: str = "upgrade") -> ArgumentParser:
    """Return the parser of this command."""
    made = ArgumentParser(
        prog=f"cortext {name}", description=_ABOUT[name], epilog=f"example:  cortext {name} --dry-run"
    )
    made.add_argument("-n", "--dry-run", action="store_true", help="only report what would be done")
    made.add_argument("--json", action="store_true", help="print the report as JSON")
    return made


def run(arguments: list[str], name: str = "upgrade") -> int:
    """Update or uninstall, and report what was kept."""
    options = parser(name).parse_args(arguments)
    stores = Stores()
    root = stores.here()
    tools = [installer(tool) for tool in load_manifest(root).tools]
    setup = Setup(root, tools, PROGRAM, calls=stores.settings.workspace.recall == CALLS, dry_run=options.dry_run)
    report = setup.install() if name == "upgrade" else setup.uninstall()
    if options.json:
        print(report_json(report))
    else:
        print_report(report, dry_run=options.dry_run, uninstalled=name == "uninstall")
        timer = timer_path()
        if name == "uninstall" and os.path.exists(timer):
            print(f"  the timer stays, because it serves all your workspaces: {terminal.line(timer)}; stop it with:")
            print("  systemctl --user disable --now cortext-sweep.timer")
        for path in restore_settings(all_tools(), dry_run=True) if name == "uninstall" else ():
            print(f"  a raised setting stays, because it serves all your projects: {terminal.line(path)}")
            print("  restore it with: cortext rescue --undo")
    return 0
