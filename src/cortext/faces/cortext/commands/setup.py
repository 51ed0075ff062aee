"""`cortext init`, `upgrade` and `uninstall`: make a folder a workspace, update it, and undo that."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser
from functools import partial
from textwrap import wrap

import msgspec

from cortext.distribution import install_hint
from cortext.errors import CortextError, UnsafePath, UsageError
from cortext.faces.cortext.commands.doctor import warn_if_not_on_path
from cortext.faces.terminal.args import Several, stores_for
from cortext.faces.terminal.output import columns, paint
from cortext.faces.terminal.run import Command
from cortext.model.wording import amount, listed
from cortext.safety import terminal
from cortext.services.capture.rescue import restore_settings
from cortext.services.capture.user_services import timer_path, write_timer
from cortext.services.projects.workspaces import PROGRAM, check_folder, remember_workspace, untrusted_workspace
from cortext.services.workspace import installed_tools
from cortext.services.workspace.installed_tools import detect_all, untested
from cortext.services.workspace.setup import Report, Setup, load_manifest, mend_line_ends
from cortext.wiring import tools
from cortext.wiring.stores import Stores


def init_parser() -> ArgumentParser:
    """Return the parser."""
    command = ArgumentParser(
        prog="cortext init",
        description="Make a folder a workspace, in a new or an existing git repository: conversation types with their "
        "prompts and templates, the slash commands, hooks and MCP entry of your AI tools, and a merge driver. "
        "Running it again changes nothing that you edited.",
        epilog="example:  cortext init --ai claude,codex  ·  Undo it with `cortext uninstall`.",
    )
    command.add_argument("folder", nargs="?", default=".", help="the folder to set up (default: the current one)")
    command.add_argument(
        "--ai",
        action=Several,
        default="auto",
        help=f"the tools to set up: a list of {', '.join(tools.target_names())}; auto: those installed (default)",
    )
    command.add_argument("--force", action="store_true", help="allow your home folder, which becomes a git repository")
    command.add_argument(
        "--timer", action="store_true", help="also write a systemd timer that pauses quiet conversations"
    )
    command.add_argument(
        "--user-hooks",
        action="store_true",
        help="also add hooks to your own settings, without asking, for tools that read them only there (Kimi Code)",
    )
    command.add_argument("--json", action="store_true", help="print what was written as JSON")
    return command


def run_init(arguments: list[str]) -> int:
    """Set it up and print what to do next."""
    options = init_parser().parse_args(arguments)
    folder = check_folder(os.path.abspath(options.folder))
    if os.path.exists(folder) and not os.path.isdir(folder):
        raise UsageError(f"{folder} is a file, not a folder", kept="nothing was changed", hint="name a folder")
    _check_home(folder, force=options.force)
    if os.path.isdir(os.path.join(folder, ".workspace")) and (refused := untrusted_workspace(folder)):
        raise UnsafePath(
            refused, kept="nothing was changed", hint="add it to that setting, or set up a workspace of your own"
        )
    # Settings that cannot be used are reported before anything is written.
    Stores(folder if os.path.isdir(folder) else os.path.dirname(folder))
    installers = tools.chosen_installers(options.ai)
    report = Setup(folder, installers, PROGRAM).install()
    remember_workspace(folder)
    timer = write_timer() if options.timer else ""
    if options.user_hooks:
        report.merged += [
            path for tool in tools.with_user_hooks(installers) for path in tool.install_user_hooks(PROGRAM)
        ]
    warn_if_not_on_path()
    if options.json:
        print(report_json(report))
        return 0
    names = ", ".join(tool.title for tool in installers) or "no AI tool yet: none was found on PATH"
    print(f"{paint('Workspace ready', 'bold')} in {terminal.line(folder)}")
    print(f"  for {names}")
    print_report(report)
    for hooked in tools.with_user_hooks(installers):
        missing = hooked.install_user_hooks(PROGRAM, dry_run=True)
        if missing and _agreed_to_user_hooks(hooked.name, hooked.title, hooked.user_hooks_file):
            hooked.install_user_hooks(PROGRAM)
    for tool, version in zip(installers, detect_all(installers), strict=True):
        if note := untested(tool, version):
            print(f"  note: {terminal.line(note)}")
    if installers and not installed_tools.has_mcp_sdk():
        print("  no MCP server, through which the tools' models search and save conversations: it is an optional part.")
        print(f"  {install_hint(installed_tools.MCP_EXTRA)}, then run `cortext init` again")
    if timer:
        print(f"  timer written: {timer}; start it with: systemctl --user enable --now cortext-sweep.timer")
    print("\nStart a conversation in your AI tool, in this folder:")
    for tool in installers:
        for number, line in enumerate(tool.first_steps):
            print(f"  {'' if number else tool.title:<12} {line}")
    if not installers:
        _print_folded(f"(once a tool is installed: cortext init --ai {' or '.join(tools.target_names())})")
    print("`stop-conversation` instead of `brainstorm` saves it, `resume` continues one;")
    print("`cortext resume` in a terminal continues one in any of the tools.")
    print("\nCommit these files, so that every clone of this repository has them too.")
    print("Sessions contain what was said, word for word; to keep them out of git, add")
    print("`.session/` to .gitignore.")
    return 0


def _agreed_to_user_hooks(name: str, title: str, path: str) -> bool:
    """Ask at a terminal whether to add hooks to the user's own settings; else say how to add them."""
    print(f"  {title} reads hooks only from {terminal.line(path)}, for every folder.")
    if sys.stdin.isatty() and input("  Add cortext's there? [y/N] ").strip().lower() in ("y", "yes"):
        print("  Added. Undo: cortext uninstall --user-hooks")
        return True
    print(f"  Add them with: cortext init --ai {name} --user-hooks")
    return False


def _check_home(folder: str, *, force: bool) -> None:
    """Refuse a home folder: all of it would be in a git repository, and its settings would apply everywhere."""
    home = os.path.realpath(os.path.expanduser("~"))
    if force or os.path.realpath(folder) != home or os.path.isdir(os.path.join(folder, ".workspace")):
        return
    raise UsageError(
        f"{folder} is your home folder: it would become a git repository and a workspace",
        kept="nothing was changed",
        hint="name a folder in it: cortext init FOLDER; or use --force",
    )


_ABOUT = {
    "upgrade": "Update the prompts, templates, commands and hooks of this workspace to this version of cortext. "
    "Files that you edited are kept and named.",
    "uninstall": "Remove what `cortext init` added to this workspace. Your conversations and every file that you "
    "edited stay. `cortext init` adds it again.",
}


def upgrade_parser(name: str = "upgrade") -> ArgumentParser:
    """Return the parser."""
    command = ArgumentParser(
        prog=f"cortext {name}", description=_ABOUT[name], epilog=f"example:  cortext {name} --dry-run"
    )
    command.add_argument("-n", "--dry-run", action="store_true", help="only report what would be done")
    if name == "uninstall":
        command.add_argument("--user-hooks", action="store_true", help="also remove the hooks from your own settings")
    command.add_argument("--json", action="store_true", help="print the report as JSON")
    return command


def run_upgrade(arguments: list[str], name: str = "upgrade") -> int:
    """Update or uninstall, and report what was kept."""
    options = upgrade_parser(name).parse_args(arguments)
    uninstalled = name == "uninstall"
    stores = stores_for(only_reads=uninstalled)
    removed = _remove_user_hooks(dry_run=options.dry_run) if uninstalled and options.user_hooks else None
    if removed is not None and not stores.workspace:  # it may be uninstalled already
        report = Report()
    else:
        root = stores.here()
        installers = [tools.installer(tool) for tool in load_manifest(root).tools]
        setup = Setup(root, installers, PROGRAM, dry_run=options.dry_run)
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
    return [path for tool in tools.with_user_hooks() for path in tool.remove_user_hooks(dry_run=dry_run)]


def _print_what_stays() -> None:
    """Name what serves all workspaces, and how to remove it."""
    timer = timer_path()
    if os.path.exists(timer):
        print(f"  the timer stays, because it serves all your workspaces: {terminal.line(timer)}; stop it with:")
        print("  systemctl --user disable --now cortext-sweep.timer")
    for path in restore_settings(tools.tools(), dry_run=True):
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


def print_report(report: Report, *, dry_run: bool = False, uninstalled: bool = False) -> None:
    """Print how many files changed, and name those that the user has edited."""
    would = "would be " if dry_run else ""
    for label, paths in (("written", report.written), ("removed", report.removed)):
        if paths:
            files = amount(len(paths), "file")
            _print_folded(f"{files} {would}{label}: {listed(paths, 4)}")
    if report.merged:
        done = "removed from" if uninstalled else "added to"
        _print_folded(f"cortext's entries {would}{done}: {', '.join(dict.fromkeys(report.merged))}")
    for path in report.kept:
        print(f"  {paint('kept', 'yellow')}, because you edited it: {terminal.line(path)}")
    if not (report.written or report.removed or report.merged or report.kept):
        print("  nothing to remove" if uninstalled else "  everything is up to date")


def _print_folded(line: str) -> None:
    """Print a line indented, folded between the names on a screen."""
    lead = "  "
    screen = columns() or 10_000
    lines = wrap(terminal.line(line), screen, initial_indent=lead, subsequent_indent=lead * 2,
                break_long_words=False, break_on_hyphens=False)  # fmt: skip
    print("\n".join(lines))


def report_json(report: Report) -> str:
    """Return the report as JSON."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2).decode()


INIT = Command(init_parser, run_init)
UPGRADE = Command(upgrade_parser, run_upgrade)
UNINSTALL = Command(partial(upgrade_parser, "uninstall"), partial(run_upgrade, name="uninstall"))
