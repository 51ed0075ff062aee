"""`alfred`: the assistant. Only the module of the requested command is imported."""

from __future__ import annotations

from cortext import __version__
from cortext.faces.terminal.run import note_untrusted_workspace, run_command, run_process

COMMANDS = {
    "telegram": "cortext.agents.telegram.main",
    "worker": "cortext.agents.alfred.worker",
    "memory": "cortext.agents.alfred.memory",
}
TALK = "cortext.agents.alfred.talk"

HELP = """\
alfred is your assistant, in the terminal and on Telegram: it stores every conversation, and can search and resume them.

usage: alfred [--model M] [--new] [--session ID]     start a conversation
       alfred "question"                             print one answer to standard output, in the current session
       alfred telegram                               run the assistant as a Telegram bot
       alfred memory [list|add|forget|search]        manage what it remembers
       alfred worker [--once]                        make summaries and vectors in the background

Start:     alfred
           you> Which of my trips needed a visa?
           … /help lists the commands, Ctrl-C stops an answer, Ctrl-D leaves …
Script:    git diff | alfred --new "Explain this change" > explained.md
Telegram:  create a bot with @BotFather, then TELEGRAM_BOT_TOKEN=… alfred telegram

The current session continues at the next start; /new starts another one. `cortext list`, `cortext search` and
`cortext resume` include alfred's sessions, and /resume continues a session of any AI tool.

Exit codes: 0 done, 1 not found or refused, 2 usage error, 3 damaged data, 4 in use by another process,
5 could not write, 6 unsafe path, 7 invalid settings, 8 no complete answer from the model, 130 stopped with Ctrl-C.
"""


def main() -> None:
    """Run the program."""
    run_process(run)


def run(arguments: list[str]) -> int:
    """Run the command that the arguments name, or else answer them as a question; return the exit code."""
    if arguments and arguments[0] in ("-h", "--help", "help"):
        print(HELP, end="")
        return 0
    if arguments and arguments[0] in ("-V", "--version"):
        print(f"alfred {__version__}")
        return 0
    note_untrusted_workspace()
    if arguments and arguments[0] in COMMANDS:
        return run_command("alfred", COMMANDS[arguments[0]], arguments[1:])
    return run_command("alfred", TALK, arguments)


if __name__ == "__main__":
    main()
