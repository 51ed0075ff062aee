"""`aur`: conversations with agents in the terminal. Only the module of the requested command is imported."""

from __future__ import annotations

from cortext import __version__
from cortext.faces.terminal.run import note_untrusted_workspace, run_command, run_process, unknown_command

PACKAGE = "cortext.agents.aur"
COMMANDS = {"spawn": "spawn", "agents": "open_session:AGENTS"}

HELP = """\
aur runs conversations with agents in your terminal, and stores every message.

usage: aur spawn -i [--agent NAME] [--model M] [--session NAME]     start a conversation
       aur spawn "question" [--agent NAME]                          print one answer to standard output
       aur spawn --resume ID                                        continue a session
       aur spawn --list-sessions                                    list the sessions
       aur agents                                                   list the agents

Start:     aur spawn -i --agent architect
           architect> How would you split this service?
           … Ctrl-C stops an answer, /help lists the commands, Ctrl-D leaves …
Resume:    aur spawn --list-sessions, then aur spawn --resume session-7k3vq9xw1t
Script:    git diff | aur spawn "Review this change" --agent reviewer > review.md

Every session is a file of plain JSON lines in ~/.aurora/spawn/sessions. `aur spawn --help` lists all options.
`cortext list`, `cortext search` and `cortext resume` include these sessions.

Exit codes: 0 done, 1 not found or refused, 2 usage error, 3 damaged data, 4 in use by another process,
5 could not write, 6 unsafe path, 7 invalid settings, 8 no complete answer from the model, 130 stopped with Ctrl-C.
"""


def main() -> None:
    """Run the program."""
    run_process(run)


def run(arguments: list[str]) -> int:
    """Run the command that the arguments name; return the exit code."""
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(HELP, end="")
        return 0
    if arguments[0] in ("-V", "--version"):
        print(f"aur {__version__}")
        return 0
    if arguments[0] not in COMMANDS:
        return unknown_command("aur", arguments[0], list(COMMANDS))
    note_untrusted_workspace()
    return run_command("aur", f"{PACKAGE}.{COMMANDS[arguments[0]]}", arguments[1:])


if __name__ == "__main__":
    main()
