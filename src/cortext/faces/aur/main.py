"""`aur`: talk with named agents in the terminal. Only the module of what was asked for is imported."""

from __future__ import annotations

from cortext import __version__
from cortext.faces.terminal.run import note_untrusted_workspace, run_command, run_process, unknown_command

PACKAGE = "cortext.faces.aur"
COMMANDS = {"spawn": "spawn", "agents": "agents"}

HELP = """\
aur talks with named agents in your terminal, and never loses a word of it.

usage: aur spawn -i [--agent NAME] [--model M] [--session NAME]     talk
       aur spawn "question" [--agent NAME]                          one answer on standard output
       aur spawn --resume ID                                        go on where you stopped
       aur spawn --list-sessions                                    what there is
       aur agents                                                   who there is to talk to

Begin:     aur spawn -i --agent architect
           architect> How would you split this service?
           … Ctrl-C stops an answer, /help shows what else you can do, Ctrl-D leaves …
Go on:     aur spawn --list-sessions, then aur spawn --resume session-7k3vq9xw1t
Script:    git diff | aur spawn "Review this change" --agent reviewer > review.md

Every session is a file of plain JSON lines in ~/.aurora/spawn/sessions. `aur spawn --help` has all options;
`cortext list`, `cortext search` and `cortext resume` know these sessions too.

Exit codes: 0 done, 1 not found or refused, 2 not understood, 3 damaged data, 4 in use by another process,
5 could not write, 6 unsafe path, 7 bad settings, 8 no (whole) answer from the model, 130 stopped with Ctrl-C.
"""


def main() -> None:
    """The entry point."""
    run_process(run)


def run(words: list[str]) -> int:
    """Find the command and run it; the exit code."""
    if not words or words[0] in ("-h", "--help", "help"):
        print(HELP, end="")
        return 0
    if words[0] in ("-V", "--version"):
        print(f"aur {__version__}")
        return 0
    if words[0] not in COMMANDS:
        return unknown_command("aur", words[0], list(COMMANDS))
    note_untrusted_workspace()
    return run_command("aur", f"{PACKAGE}.{COMMANDS[words[0]]}", words[1:])


if __name__ == "__main__":
    main()
