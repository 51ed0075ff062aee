"""`cortext`: finds the command and runs it. Only that command's module is imported."""

from __future__ import annotations

import os
import sys

from cortext import __version__
from cortext.config import folders
from cortext.errors import CortextError
from cortext.faces.terminal.run import note_untrusted_workspace, run_command, unknown_command, whole_process
from cortext.safety import terminal

PACKAGE = "cortext.faces.cortext.commands"

# Name, module and one line of help, in the order and the groups in which `--help` shows them.
COMMANDS: tuple[tuple[str, tuple[tuple[str, str, str], ...]], ...] = (
    (
        "A conversation",
        (
            ("new", "new", "begin one: cortext new brainstorm API design"),
            ("resume", "resume", "continue one, in any AI tool: by number, id or words"),
            ("stop", "stop", "save and pause it"),
            ("complete", "complete", "save it and mark it as completed"),
            ("show", "show", "read it"),
            ("title", "title", "name it"),
            ("fork", "fork", "go another way from any of its messages"),
            ("prune", "prune", "move its older messages to the archive"),
            ("export", "export", "as markdown, JSON or a native session; secrets masked"),
            ("delete", "delete", "move it to the trash"),
            ("restore", "restore", "bring it back from the trash"),
        ),
    ),
    (
        "All of them",
        (
            ("list", "list_", "what there is, the last active first"),
            ("search", "search", "find what was said, by words and by meaning"),
            ("similar", "similar", "sessions that are about the same as one"),
            ("browse", "browse", "find, read and resume them on one screen"),
            ("stats", "stats", "how many there are, by day, tool and type"),
            ("import", "import_", "take in what your AI tools have stored"),
            ("sync", "sync", "take in only what is new"),
            ("sweep", "sweep", "pause what has been quiet for a while"),
            ("doctor", "doctor", "check every store, say what is wrong and what to do"),
            ("store", "store_", "where sessions are kept; copy them to a server and back"),
            ("repair", "repair", "mend a damaged session; nothing is thrown away"),
            ("index", "index_", "the search index: status, rebuild, clear"),
        ),
    ),
    (
        "The workspace",
        (
            ("init", "init", "make a folder a workspace for your AI tools"),
            ("upgrade", "upgrade", "bring it up to this version, keeping what you edited"),
            ("uninstall", "uninstall", "take out exactly what init put in"),
            ("type", "type_", "conversation types: list them, add and remove your own"),
            ("trust", "trust", "let this workspace's settings do everything"),
            ("completion", "completion", "completion for bash, zsh or fish"),
            ("mcp", "mcp", "the server through which an AI tool asks for past conversations"),
            ("tools", "tools", "which AI tools are here, and which versions we tested"),
            ("demo", "demo", "a workspace with a dozen conversations to play with"),
        ),
    ),
)

# Called by programs, not by people.
HIDDEN = {
    "hook": "hook",
    "merge-driver": "merge_driver",
    "complete-words": "complete_words",
    "refresh": "refresh",
}

# What sees to a workspace itself, leaves it, or has nothing to do with the one that we stand in.
UNADOPTED = frozenset({"init", "upgrade", "uninstall", "demo", "completion", "complete-words", "hook", "merge-driver"})

HELP = """\
cortext keeps every conversation you have with an AI agent, and continues it in any tool.

usage: cortext COMMAND [options]          `cortext help COMMAND` explains each one
{commands}

Naming one: 3 is the third row of the last list, 014 a conversation's own number, an id may be cut
short (014-p). What only reads or resumes also takes words.

Common options: --json for scripts, --help. Exit codes: 0 done, 1 not found or refused, 2 not understood,
3 damaged data, 4 in use by another process, 5 could not write, 6 unsafe path, 7 bad settings,
8 no answer from the model, 9 no answer from the store's server.
"""


def help_text() -> str:
    """All commands, grouped."""
    lines = []
    for group, commands in COMMANDS:
        lines.append(f"\n{group}:")
        lines += [f"  {name:<10} {text}" for name, _, text in commands]
    return HELP.format(commands="\n".join(lines))


def main() -> None:
    """The entry point."""
    whole_process(run)


def run(words: list[str]) -> int:
    """Find the command and run it; the exit code."""
    if "CORTEXT_ENVIRONMENT" in os.environ:  # a tool that we launched has started us
        from cortext.services.resume.environment import adopt

        adopt()
    if not words:
        adopt_here()
        tell_news()
        return run_command("cortext", f"{PACKAGE}.status", [])
    if words[0] == "help" and len(words) > 1:
        words = [words[1], "--help"]
    if words[0] in ("-h", "--help", "help"):
        print(help_text(), end="")
        return 0
    if words[0] in ("-V", "--version"):
        print(f"cortext {__version__}")
        return 0
    modules = {name: module for _, commands in COMMANDS for name, module, _ in commands} | HIDDEN
    if words[0] not in modules:
        return unknown_command("cortext", words[0], list(modules))
    if words[0] not in UNADOPTED:
        adopt_here()
    if words[0] not in HIDDEN:
        tell_news()
    return run_command("cortext", f"{PACKAGE}.{modules[words[0]]}", words[1:])


def tell_news() -> None:
    """Say, once, that a hook failed since the last command: the tool that called it was not disturbed."""
    if os.path.lexists(os.path.join(folders.state(), "hook-failed")):
        from cortext.services.capture import uncaptured

        told = uncaptured.pop_notice()
        if told:
            print(terminal.line(f"cortext: {told}"), file=sys.stderr)
            print("  `cortext doctor` shows everything that is not captured.", file=sys.stderr)


def adopt_here() -> None:
    """The first command in a clone of a workspace sees to what a clone lacks, and says so."""
    from cortext.services.workspace.known import adopt_workspace, find_workspace

    note_untrusted_workspace()
    try:
        adopted = adopt_workspace(find_workspace(os.getcwd()))
    except (OSError, CortextError):  # the folder that we stand in was removed, or bad settings: the command says so
        return
    if adopted:
        print("Note: set up cortext's merge driver in this clone (git config merge.cortext.driver).", file=sys.stderr)


if __name__ == "__main__":
    main()
