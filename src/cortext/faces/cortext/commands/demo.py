"""`cortext demo`: a workspace to play with."""

from __future__ import annotations

import os
import subprocess
from argparse import ArgumentParser

from cortext.errors import UsageError
from cortext.faces.terminal.style import paint
from cortext.safety import terminal
from cortext.services import demo
from cortext.services.setup import Setup
from cortext.wiring import Wiring


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
    made = demo.fill(folder, Wiring(folder).workspace_store().store)
    if made:
        _into_git(folder)
    print(terminal.line(f"{len(made)} conversations written to {folder}, as plain files in git."))
    if not options.quiet:
        _tour(folder)
    return 0


def _own_repository(folder: str) -> None:
    """A repository of its own, also inside another one: nothing of the demo may be committed there."""
    os.makedirs(folder, exist_ok=True)
    if not os.path.exists(os.path.join(folder, ".git")):
        try:
            subprocess.run(["git", "init", "-q", folder], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            pass  # said when it comes to the commit


def _into_git(folder: str) -> None:
    """One commit, with a name of the demo's own, which later saves there have too: git may know nobody here."""
    own = {"user.name": "cortext demo", "user.email": "demo@localhost", "commit.gpgsign": "false"}
    names = [["config", key, value] for key, value in own.items()]
    for step in (*names, ["add", "."], ["commit", "-q", "-m", "A dozen conversations (session state saved)"]):
        try:
            subprocess.run(["git", "-C", folder, *step], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            print("(git is not here or would not commit: the files are written all the same)")
            return


def _shown(word: str) -> str:
    return terminal.line(os.path.basename(word) if os.path.isabs(word) else word)


def _tour(folder: str) -> None:
    """The main job, with the same commands that a person would type."""
    from cortext.faces.cortext.main import run as main

    os.chdir(folder)
    os.environ["CORTEXT_WORKSPACE"] = folder
    steps = (
        (["list", "--here"], "Everything that was said, found again:"),
        (
            ["search", "tablets", "thrown", "out", "at", "sunrise", "--workspace", folder, "--limit", "2"],
            "Found by what was meant (nobody said it in these words):",
        ),
        (["show", "002", "--tail", "6"], "One of them, word for word:"),
        (["resume", "api", "design", "--print", "--tokens", "1500"], "And what an agent receives to go on with one:"),
    )
    for words, why in steps:
        print(f"\n{paint(why, 'bold')}\n{paint('$ cortext ' + ' '.join(map(_shown, words)), 'green')}\n")
        main(list(words))
    print(f"\n{paint('Your turn:', 'bold')} cd {terminal.line(os.path.basename(folder))} && {_program()} browse")


def _program() -> str:
    """What to type for us: the name where the shell finds it, else the path that we were called by."""
    import shutil
    import sys

    called = os.path.abspath(sys.argv[0])
    return "cortext" if shutil.which("cortext") or not os.path.isfile(called) else terminal.line(called)
