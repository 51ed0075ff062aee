"""`cortext`: find the command and run it. Only that command's module is imported."""

from __future__ import annotations

import os
import sys

from cortext import __version__, extensions
from cortext.config import folders
from cortext.errors import CortextError
from cortext.faces.terminal.run import note_untrusted_workspace, resembles, run_command, run_process, unknown_command
from cortext.safety import terminal
from cortext.safety.languages import typed

FACES = "cortext.faces."
PACKAGE = f"{FACES}cortext.commands"

ROOM = ""

# Name, place and one line of help, in the order and the groups in which `help --all` shows them. The place is a module
# of the package above with `parser` and `run`, or `module:NAME` of a Command in it; a dotted one is elsewhere;
# ROOM is found by its entry point.
COMMANDS: tuple[tuple[str, tuple[tuple[str, str, str], ...]], ...] = (
    (
        "One conversation",
        (
            ("new", "lifecycle:NEW", "start one: cortext new brainstorm API design"),
            ("resume", "resume", "continue one, in any AI tool: by number, id or words"),
            ("stop", "lifecycle:STOP", "save and pause it"),
            ("complete", "lifecycle:COMPLETE", "save it and mark it as completed"),
            ("show", "show", "read it"),
            ("title", "marks:TITLE", "show or change its title"),
            ("tag", "marks:TAG", "tag it; list all tags"),
            ("star", "marks:STAR", "mark it with a star"),
            ("note", "marks:NOTE", "keep notes on it"),
            ("archive", "marks:ARCHIVE", "hide it from lists; it is still found"),
            ("fork", "lifecycle:FORK", "branch off at any of its messages"),
            ("prune", "lifecycle:PRUNE", "move its older messages to the archive"),
            ("share", ROOM, "let others on the same server read or continue it"),
            ("unshare", ROOM, "stop sharing it"),
            ("export", "export", "write it as markdown, JSON, HTML or a native session; secrets masked"),
            ("delete", "recovery:DELETE", "move it to the trash"),
            ("restore", "recovery:RESTORE", "bring it back: from the trash, or into the tool that lost it"),
        ),
    ),
    (
        "All conversations",
        (
            ("list", "list_", "list sessions, most recently active first"),
            ("search", "search", "find what was said, by words and by meaning"),
            ("similar", "search:SIMILAR", "find sessions about the same topic"),
            ("why", "origin:WHY", "find the conversation behind a line or a commit"),
            ("touched", "origin:TOUCHED", "list conversations that read or changed a file"),
            ("browse", "browse", "find, read and resume them on one screen"),
            ("web", ROOM, "the same in your browser, on a local page"),
            ("stats", "figures:STATS", "count them by day, tool and type"),
            ("cost", "figures:COST", "show what they cost, by day, model, tool, project or session"),
            ("import", "import_:IMPORT", "import what your AI tools have stored"),
            ("sync", "import_:SYNC", "import only what is new"),
            ("watch", "import_:WATCH", "import what changes as soon as it changes"),
            ("rescue", "rescue", "import what your AI tools are about to delete"),
            ("sweep", "lifecycle:SWEEP", "pause conversations that have been quiet for a while"),
            ("doctor", "doctor:DOCTOR", "check every store, report what is wrong and what to do"),
            ("store", ROOM, "show where sessions are kept; copy them to a server and back"),
            ("repair", "recovery:REPAIR", "repair a damaged session; nothing is thrown away"),
            ("index", "index_:INDEX", "show, rebuild or clear the search index"),
        ),
    ),
    (
        "The workspace",
        (
            ("init", "setup:INIT", "make a folder a workspace for your AI tools"),
            ("upgrade", "setup:UPGRADE", "update it to this version, keeping what you edited"),
            ("uninstall", "setup:UNINSTALL", "remove exactly what init added"),
            ("type", "settings:TYPE", "list conversation types, add and remove your own"),
            ("trust", "settings:TRUST", "trust the settings of this workspace"),
            ("completion", "completion:COMPLETION", "print a completion script for bash, zsh or fish"),
            ("mcp", "cortext.faces.mcp.main", "serve past conversations to an AI tool (MCP)"),
            ("tools", "doctor:TOOLS", "show which AI tools are installed, and which versions are tested"),
            ("demo", "demo", "make a workspace with a dozen conversations to try out"),
        ),
    ),
)

# What `--help` shows of them.
EVERYDAY = frozenset(
    {"new", "resume", "stop", "show", "export", "list", "search", "browse", "web", "import", "doctor", "init"}
)

ALL = "--all"
OPTIONS = ("-h", "--help", "-V", "--version")

# Called by programs, not by people.
HIDDEN = {
    "hook": "hook",
    "merge-driver": "merge_driver",
    "complete-words": "completion:WORDS",
    "refresh": "index_:REFRESH",
}

# Commands that set up or remove a workspace themselves, or do not use the current one.
WITHOUT_ADOPTION = frozenset(
    {"init", "upgrade", "uninstall", "demo", "completion", "complete-words", "hook", "merge-driver"}
)

HELP = """\
cortext keeps every conversation you have with an AI agent, and continues it in any tool.

usage: cortext COMMAND [options]          `cortext help COMMAND` explains each one
       cortext WORDS                      searches for words that are not a command
{commands}

Naming a conversation: 3 is the third row of the last list or search, 014 is its own number, an
id may be abbreviated (014-p). Commands that only read or resume also accept words.

"""

SHORT_END = """\
`cortext help --all` shows every command, and the exit codes.
"""

LONG_END = """\
Common options: --json for scripts, --help. Exit codes: 0 done, 1 not found or refused, 2 usage error,
3 damaged data, 4 in use by another process, 5 could not write, 6 unsafe path, 7 invalid settings,
8 no answer from the model, 9 no answer from the store's server.
"""


def commands() -> dict[str, str]:
    """Return every command that people call, by name, as `load_command` takes it, in the order of the help."""
    rooms = extensions.COMMANDS.built_in
    return {name: value_of(place) if place else rooms[name] for _, group in COMMANDS for name, place, _ in group}


def other_commands() -> dict[str, str]:
    """Return where the commands of other packages are, by name; say which are ignored."""
    values = {name: value for name, value in extensions.COMMANDS.external.items() if name not in commands()}
    for line in extensions.problems():
        print(terminal.line(f"cortext: {line}"), file=sys.stderr)
    return values


def value_of(place: str) -> str:
    """Return what `load_command` takes for a place of the table."""
    return place if "." in place else f"{PACKAGE}.{place}"


def help_text(*, of_all: bool) -> str:
    """Return the help of the everyday commands, or of all, grouped."""
    lines = []
    for heading, group in COMMANDS:
        lines += [f"\n{heading}:", *(_line(name, text) for name, _, text in group if of_all or name in EVERYDAY)]
    if of_all and (others := other_commands()):
        lines += ["\nOther packages:"]
        lines += [_line(name, f"from {value.partition('.')[0]}") for name, value in others.items()]
    return HELP.format(commands="\n".join(lines)) + (LONG_END if of_all else SHORT_END)


def _line(name: str, text: str) -> str:
    return f"  {name:<10} {text}"


def main() -> None:
    """Run `cortext` as a process: the entry point."""
    run_process(run)


def run(words: list[str]) -> int:
    """Find the command and run it; return the exit code."""
    if "CORTEXT_ENVIRONMENT" in os.environ:  # started by a tool that we launched
        from cortext.services.resume.environment import adopt

        adopt()
    if not words:
        adopt_current_workspace()
        print_hook_failure()
        return run_command("cortext", value_of("_listing:STATUS"), [])
    values = commands() | {name: value_of(place) for name, place in HIDDEN.items()}
    if (words[1] if words[0] == "help" and len(words) > 1 else words[0]) not in {*values, "help", *OPTIONS}:
        values |= other_commands()
    if words[0] == "help" and len(words) > 1 and words[1] != ALL:
        if words[1] not in values and words[1] != "help" and not words[1].startswith("-"):
            return unknown_command("cortext", words[1], list(values))
        words = [words[1], "--help"]
    if words[0] in ("-h", "--help", "help"):
        print(help_text(of_all=ALL in words), end="")
        return 0
    if words[0] in ("-V", "--version"):
        print(f"cortext {__version__}")
        return 0
    if words[0] not in values:
        if words[0].startswith("-") or resembles(words[0], [*values, "help"]):
            also = typed(["cortext", "search", *words]) if not words[0].startswith("-") else ""
            return unknown_command("cortext", words[0], list(values), also=also)
        print(terminal.line(f"Note: {words[0]!r} is not a command: searching for it"), file=sys.stderr)
        words = ["search", *words]
    if words[0] not in WITHOUT_ADOPTION:
        adopt_current_workspace()
    if words[0] not in HIDDEN:
        print_hook_failure()
    value = values[words[0]]
    if value.startswith(FACES):
        return run_command("cortext", value, words[1:])
    return run_command("cortext", words[0], words[1:], extensions.COMMANDS.load)


def print_hook_failure() -> None:
    """Report, once, that a hook has failed since the last command: the tool that called it was not disturbed."""
    if os.path.lexists(os.path.join(folders.state(), "hook-failed")):
        from cortext.services.capture import uncaptured

        notice = uncaptured.pop_notice()
        if notice:
            print(terminal.line(f"cortext: {notice}"), file=sys.stderr)
            print("  `cortext doctor` shows everything that is not captured.", file=sys.stderr)


def adopt_current_workspace() -> None:
    """Complete the set-up of a cloned workspace at the first command in it, and report that."""
    from cortext.services.projects.workspaces import adopt_workspace, find_workspace

    note_untrusted_workspace()
    try:
        adopted = adopt_workspace(find_workspace(os.getcwd()))
    except (OSError, CortextError):  # the current folder is gone, or the settings are invalid: the command reports it
        return
    if adopted:
        print("Note: set up cortext's merge driver in this clone (git config merge.cortext.driver).", file=sys.stderr)


if __name__ == "__main__":
    main()
