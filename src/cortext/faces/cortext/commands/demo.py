"""`cortext demo`: a workspace to try things in."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import subprocess
import sys
from argparse import ArgumentParser

from cortext.errors import UsageError
from cortext.faces.terminal.output import paint
from cortext.model.wording import amount
from cortext.safety import terminal
from cortext.safety.credentials import for_child
from cortext.safety.languages import typed
from cortext.services.workspace import demo
from cortext.services.workspace.setup import Setup
from cortext.wiring.stores import Stores

# The tour writes for Claude Code here and not into the user's own sessions; git ignores it.
OWN_FOLDER = ("CLAUDE_CONFIG_DIR", os.path.join(".workspace", "state", "claude"))


def parser() -> ArgumentParser:
    """Return the parser."""
    command = ArgumentParser(
        prog="cortext demo",
        description="Make a workspace with a dozen conversations, in git, and show what cortext can do with them. "
        "It needs no account, key or network. Delete the folder to undo it.",
        epilog="example:  cortext demo",
    )
    command.add_argument(
        "folder", nargs="?", default="cortext-demo", help="the folder to make (default: ./cortext-demo)"
    )
    command.add_argument("--quiet", action="store_true", help="make it without the tour")
    return command


def run(arguments: list[str]) -> int:
    """Make it, then search and hand over."""
    options = parser().parse_args(arguments)
    folder = os.path.abspath(options.folder)
    if os.path.isdir(folder) and os.listdir(folder) and not os.path.isdir(os.path.join(folder, ".workspace")):
        raise UsageError(
            f"{folder} already exists and is not a workspace", kept="it is unchanged", hint="name another folder"
        )
    _make_repository(folder)
    Setup(folder, [], ["cortext"]).install()
    sessions = demo.fill(folder, Stores(folder).workspace_store().store)
    where = _shortest(folder)
    if sessions:
        _commit_all(folder)
        print(terminal.line(f"{amount(len(sessions), 'conversation')} written to {where}, as plain files in git."))
    else:
        print(terminal.line(f"Nothing to write: {where} has all conversations of the demo already."))
    if not options.quiet:
        _tour(folder)
    return 0


def _shortest(path: str, start: str = ".") -> str:
    """Return the shorter of a path and its form relative to a folder."""
    relative = os.path.relpath(path, start)
    return relative if len(relative) < len(path) else path


def _make_repository(folder: str) -> None:
    """Make the folder a repository of its own: inside another one, nothing of the demo may be committed there."""
    os.makedirs(folder, exist_ok=True)
    if not os.path.exists(os.path.join(folder, ".git")):
        try:
            subprocess.run(["git", "init", "-q", folder], check=True, capture_output=True, env=for_child(os.environ))
        except (OSError, subprocess.CalledProcessError):
            pass  # reported by the commit


def _commit_all(folder: str) -> None:
    """Commit everything. The identity is set for this repository, because git may have none here."""
    identity = {"user.name": "cortext demo", "user.email": "demo@localhost", "commit.gpgsign": "false"}
    settings = [["config", key, value] for key, value in identity.items()]
    for step in (*settings, ["add", "."], ["commit", "-q", "-m", "A dozen conversations (session state saved)"]):
        try:
            subprocess.run(["git", "-C", folder, *step], check=True, capture_output=True, env=for_child(os.environ))
        except (OSError, subprocess.CalledProcessError):
            print("(git is not installed or refused the commit; the files are written anyway)")
            return


def _tour(folder: str) -> None:
    """Find a conversation and hand it to another tool, with the commands that a user would type."""
    from cortext.faces.cortext.main import run as main

    program = _program(folder)
    print(paint(f"$ cd {terminal.line(typed([_shortest(folder)]))}", "green"))
    os.chdir(folder)
    os.environ["CORTEXT_WORKSPACE"] = folder
    found = ["search", "who", "runs", "FLUSHALL", "--limit", "1", "--messages", "--project", "."]
    handed_over = ["resume", "1", "--ai", "claude", "--no-start"]
    for variable, words in (("", found), (f"{OWN_FOLDER[0]}={OWN_FOLDER[1]} ", handed_over)):
        print(paint(f"$ {variable}{program} {terminal.line(typed(words))}", "green"), flush=True)
        os.environ.update([OWN_FOLDER] if variable else [])
        hints = io.StringIO()
        with contextlib.redirect_stderr(hints):
            code = main(words)
        if code:
            print(hints.getvalue(), end="", file=sys.stderr)
    print("It went into a folder of the demo: your own Claude Code is as it was.")
    print(paint("Your turn: find, read and resume on one screen; then a project of your own.", "bold"))
    for word in ("browse", "init"):
        print(paint(f"$ {program} {word}", "green"))


def _program(folder: str) -> str:
    """Return how to call cortext in the demo's folder: its name if it is on PATH, else its path."""
    called = os.path.abspath(sys.argv[0])
    if shutil.which("cortext") or not os.path.isfile(called):
        return "cortext"
    return typed([_shortest(called, folder)])
