"""`alfred`: one assistant, on the desk and on the phone. Only the module of what was asked for is imported."""

from __future__ import annotations

from cortext import __version__
from cortext.faces.terminal.run import note_untrusted_workspace, run_command, run_process

# The bot is a face of its own: it is found by name, as every command is.
COMMANDS = {
    "telegram": "cortext.faces.telegram.main",
    "worker": "cortext.faces.alfred.worker",
    "memory": "cortext.faces.alfred.memory",
}
TALK = "cortext.faces.alfred.talk"

HELP = """\
alfred is your assistant: every conversation is kept, found and continued, at your desk and on your phone.

usage: alfred [--model M] [--new] [--session ID]     talk
       alfred "question"                             one answer on standard output, in the current session
       alfred telegram                               the same assistant as a Telegram bot
       alfred memory [list|add|forget|search]        what it remembers
       alfred worker [--once]                        summaries and vectors, while nobody waits

Begin:     alfred
           you> Which of my trips needed a visa?
           … /help shows what else you can do, Ctrl-C stops an answer, Ctrl-D leaves …
Script:    git diff | alfred --new "Explain this change" > explained.md
Phone:     make a bot with @BotFather, then TELEGRAM_BOT_TOKEN=… alfred telegram

Sessions go on where you stopped, also after a restart; /new begins another. `cortext list`, `cortext search` and
`cortext resume` know them too, and /resume continues any session of any AI tool.

Exit codes: 0 done, 1 not found or refused, 2 not understood, 3 damaged data, 4 in use by another process,
5 could not write, 6 unsafe path, 7 bad settings, 8 no (whole) answer from the model, 130 stopped with Ctrl-C.
"""


def main() -> None:
    """The entry point."""
    run_process(run)


def run(words: list[str]) -> int:
    """Find the command and run it; what is no command is a question."""
    if words and words[0] in ("-h", "--help", "help"):
        print(HELP, end="")
        return 0
    if words and words[0] in ("-V", "--version"):
        print(f"alfred {__version__}")
        return 0
    note_untrusted_workspace()
    if words and words[0] in COMMANDS:
        return run_command("alfred", COMMANDS[words[0]], words[1:])
    return run_command("alfred", TALK, words)


if __name__ == "__main__":
    main()
