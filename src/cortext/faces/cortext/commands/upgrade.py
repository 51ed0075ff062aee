"""`cortext upgrade` and `cortext uninstall`: update or remove what init added."""

from __future__ import annotations

import os
from argparse import ArgumentParser
from functools import partial

from cortext.errors import CortextError
from cortext.faces.cortext.commands._setup_report import print_report, report_json
from cortext.faces.terminal.reading import stores_for
from cortext.faces.terminal.run import Command
from cortext.safety import terminal
from cortext.services.capture.rescue import restore_settings
from cortext.services.workspace.known import PROGRAM
from cortext.services.workspace.setup import Report, Setup, load_manifest, mend_line_ends
from cortext.services.workspace.timer import timer_path
from cortext.wiring.tools import installer, with_user_hooks
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
    if name == "uninstall":
        made.add_argument("--user-hooks", action="store_true", help="also remove the hooks from your own settings")
    made.add_argument("--json", action="store_true", help="print the report as JSON")
    return made


def run(arguments: list[str], name: str = "upgrade") -> int:
    """Update or uninstall, and report what was kept."""
    options = parser(name).parse_args(arguments)
    uninstalled = name == "uninstall"
    stores = stores_for(only_reads=uninstalled)
    removed = _remove_user_hooks(dry_run=options.dry_run) if uninstalled and options.user_hooks else None
    if removed is not None and not stores.workspace:  # it may be uninstalled already
        report = Report()
    else:
        root = stores.here()
        tools = [installer(tool) for tool in load_manifest(root).tools]
        setup = Setup(root, tools, PROGRAM, dry_run=options.dry_run)
        report = setup.uninstall() if uninstalled else setup.install()
        if not uninstalled:
            report.written += mend_line_ends(stores.workspace_store(), dry_run=options.dry_run)
    report.merged += removed or []
    if options.json:
        print(report_json(report))
        return 0
    print_report(report, dry_run=options.dry_run, uninstalled=uninstalled)
    if uninstalled:
        _print_what_stays()
    return 0


def _remove_user_hooks(*, dry_run: bool) -> list[str]:
    """Remove our hooks from the user's own settings of every tool; return the files that changed or would."""
    return [path for tool in with_user_hooks() for path in tool.remove_user_hooks(dry_run=dry_run)]


def _print_what_stays() -> None:
    """Name what serves all workspaces, and how to remove it."""
    timer = timer_path()
    if os.path.exists(timer):
        print(f"  the timer stays, because it serves all your workspaces: {terminal.line(timer)}; stop it with:")
        print("  systemctl --user disable --now cortext-sweep.timer")
    for path in restore_settings(all_tools(), dry_run=True):
        print(f"  a raised setting stays, because it serves all your projects: {terminal.line(path)}")
        print("  restore it with: cortext rescue --undo")
    try:
        hooked = _remove_user_hooks(dry_run=True)
    except CortextError as error:
        print(f"  {terminal.line(error.message)}")
        return
    for path in hooked:
        print(f"  the hooks in your own settings stay, because they serve all your projects: {terminal.line(path)}")
        print("  remove them with: cortext uninstall --user-hooks")


UNINSTALL = Command(partial(parser, "uninstall"), partial(run, name="uninstall"))
