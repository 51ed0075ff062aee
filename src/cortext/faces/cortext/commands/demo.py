"""`cortext demo`: a workspace to play with."""

from __future__ import annotations

import contextlib
import io
import os
import shlex
import shutil
import subprocess
import sys
from argparse import ArgumentParser

from cortext.errors import UsageError
from cortext.faces.terminal.style import paint
from cortext.safety import terminal
from cortext.safety.environment import for_child
from cortext.services.workspace import demo
from cortext.services.workspace.setup import Setup
from cortext.wiring.stores import Stores


def parser() -> ArgumentParser:
    """The command line."""
    made = ArgumentParser(
        prog="cortext demo",
        description="Make a workspace with a dozen conversations, in git, and show what can be done with them. "
        "No account, key or network is needed.",
    )
    made.add_argument("folder", nargs="?", default="cortext-demo", help="where (default: ./cortext-demo)")
    made.add_argument("--quiet", action="store_true", help="only make it")
    return made


def run(arguments: list[str]) -> int:
    """Make it, then list, search, show and resume."""
    options = parser().parse_args(arguments)
    folder = os.path.abspath(options.folder)
    if os.path.isdir(folder) and os.listdir(folder) and not os.path.isdir(os.path.join(folder, ".workspace")):
        raise UsageError(
            f"{folder} is there already and is no workspace", kept="it is unchanged", hint="name another folder"
        )
    _own_repository(folder)
    Setup(folder, [], ["cortext"]).install()
    made = demo.fill(folder, Stores(folder).workspace_store().store)
    if made:
        _into_git(folder)
    print(terminal.line(f"{len(made)} conversations written to {_shortest(folder)}, as plain files in git."))
    if not options.quiet:
        _tour(folder)
    return 0


def _shortest(path: str, start: str = ".") -> str:
    """A path as short as it can be typed from a folder."""
    near = os.path.relpath(path, start)
    return near if len(near) < len(path) else path


def _own_repository(folder: str) -> None:
    """A repository of its own, also inside another one: nothing of the demo may be committed there."""
    os.makedirs(folder, exist_ok=True)
    if not os.path.exists(os.path.join(folder, ".git")):
        try:
            subprocess.run(["git", "init", "-q", folder], check=True, capture_output=True, env=for_child(os.environ))
        except (OSError, subprocess.CalledProcessError):
            pass  # said when it comes to the commit


def _into_git(folder: str) -> None:
    """One commit, with a name of the demo's own, which later saves there have too: git may know nobody here."""
    own = {"user.name": "cortext demo", "user.email": "demo@localhost", "commit.gpgsign": "false"}
    names = [["config", key, value] for key, value in own.items()]
    for step in (*names, ["add", "."], ["commit", "-q", "-m", "A dozen conversations (session state saved)"]):
        try:
            subprocess.run(["git", "-C", folder, *step], check=True, capture_output=True, env=for_child(os.environ))
        except (OSError, subprocess.CalledProcessError):
            print("(git is not here or would not commit: the files are written anyway)")
            return


def _tour(folder: str) -> None:
    """The main job, with the same commands that a person would type, on one screen."""
    from cortext.faces.cortext.main import run as main

    program, name = _program(folder), os.path.basename(folder)
    steps = (
        ["list", "--here", "--limit", "3"],
        ["search", "tablets thrown out at sunrise", "--limit", "1", "--messages", "--workspace", name],
        ["resume", "api design", "--dry-run", "--ai", "claude"],
    )
    there = shlex.quote(_shortest(folder))
    os.chdir(folder)
    os.environ["CORTEXT_WORKSPACE"] = folder
    print(paint(f"$ cd {terminal.line(there)}", "green"))
    for words in steps:
        print(paint(f"$ {program} {terminal.line(shlex.join(words))}", "green"), flush=True)
        hints = io.StringIO()
        with contextlib.redirect_stderr(hints):
            code = main(words)
        if code:
            print(hints.getvalue(), end="", file=sys.stderr)
    print(paint("Your turn: find, read and resume on one screen; then a project of your own.", "bold"))
    for word in ("browse", "init"):
        print(paint(f"$ {program} {word}", "green"))


def _program(folder: str) -> str:
    """What to type for us in the demo's folder: the name where the shell finds it, else a path to this program."""
    called = os.path.abspath(sys.argv[0])
    if shutil.which("cortext") or not os.path.isfile(called):
        return "cortext"
    return shlex.quote(_shortest(called, folder))
