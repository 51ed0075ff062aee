"""`cortext init`: make a folder a workspace."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser

from cortext.distribution import install_hint
from cortext.errors import UnsafePath, UsageError
from cortext.faces.cortext.commands._path import warn_if_not_on_path
from cortext.faces.cortext.commands._setup_report import print_report, report_json
from cortext.faces.terminal.args import Several
from cortext.faces.terminal.style import paint
from cortext.safety import terminal
from cortext.services.workspace import mcp_sdk
from cortext.services.workspace.installed_tools import detect_all, untested
from cortext.services.workspace.known import PROGRAM, check_folder, remember_workspace, untrusted_workspace
from cortext.services.workspace.setup import Setup
from cortext.services.workspace.timer import write_timer
from cortext.wiring import tools as ai_tools
from cortext.wiring.stores import Stores


def parser() -> ArgumentParser:
    """Return the parser of this command."""
    made = ArgumentParser(
        prog="cortext init",
        description="Make a folder a workspace, in a new or an existing git repository: conversation types with their "
        "prompts and templates, the slash commands, hooks and MCP entry of your AI tools, and a merge driver. "
        "Running it again changes nothing that you edited.",
        epilog="example:  cortext init --ai claude,codex  ·  Undo it with `cortext uninstall`.",
    )
    made.add_argument("folder", nargs="?", default=".", help="the folder to set up (default: the current one)")
    made.add_argument(
        "--ai",
        action=Several,
        default="auto",
        help=f"the tools to set up: a list of {', '.join(ai_tools.target_names())}; auto: those installed (default)",
    )
    made.add_argument("--force", action="store_true", help="allow your home folder, which becomes a git repository")
    made.add_argument("--timer", action="store_true", help="also write a systemd timer that pauses quiet conversations")
    made.add_argument(
        "--user-hooks",
        action="store_true",
        help="also add hooks to your own settings, without asking, for tools that read them only there (Kimi Code)",
    )
    made.add_argument("--json", action="store_true", help="print what was written as JSON")
    return made


def run(arguments: list[str]) -> int:
    """Set it up and print what to do next."""
    options = parser().parse_args(arguments)
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
    tools = ai_tools.chosen_installers(options.ai)
    report = Setup(folder, tools, PROGRAM).install()
    remember_workspace(folder)
    timer = write_timer() if options.timer else ""
    if options.user_hooks:
        report.merged += [path for tool in ai_tools.with_user_hooks(tools) for path in tool.install_user_hooks(PROGRAM)]
    warn_if_not_on_path()
    if options.json:
        print(report_json(report))
        return 0
    names = ", ".join(tool.title for tool in tools) or "no AI tool yet: none was found on PATH"
    print(f"{paint('Workspace ready', 'bold')} in {terminal.line(folder)}")
    print(f"  for {names}")
    print_report(report)
    for hooked in ai_tools.with_user_hooks(tools):
        missing = hooked.install_user_hooks(PROGRAM, dry_run=True)
        if missing and _agreed_to_user_hooks(hooked.name, hooked.title, hooked.user_hooks_file):
            hooked.install_user_hooks(PROGRAM)
    for tool, found in zip(tools, detect_all(tools), strict=True):
        if note := untested(tool, found):
            print(f"  note: {terminal.line(note)}")
    if tools and not mcp_sdk.is_installed():
        print("  no MCP server, through which the tools' models search and save conversations: it is an optional part.")
        print(f"  {install_hint(mcp_sdk.EXTRA)}, then run `cortext init` again")
    if timer:
        print(f"  timer written: {timer}; start it with: systemctl --user enable --now cortext-sweep.timer")
    print("\nStart a conversation in your AI tool, in this folder:")
    for tool in tools:
        for number, line in enumerate(tool.first_steps):
            print(f"  {'' if number else tool.title:<12} {line}")
    if not tools:
        print(f"  (once a tool is installed: cortext init --ai {' or '.join(ai_tools.target_names())})")
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
