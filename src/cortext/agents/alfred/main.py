"""`alfred`: a conversation in the terminal, or one answer on standard output; and the table of its other commands.

Only the module of the requested command is imported.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from cortext import __version__
from cortext.agents.terminal.interrupt import echo_by_prompt_only
from cortext.agents.terminal.prompt import question_of
from cortext.errors import UsageError
from cortext.faces.terminal.args import Help
from cortext.faces.terminal.run import Command, note_untrusted_workspace, run_command, run_process
from cortext.wiring.stores import Stores

if TYPE_CHECKING:
    from cortext.agents.alfred.loop import AlfredLoop

COMMANDS = {
    "telegram": "cortext.agents.telegram.main",
    "worker": "cortext.agents.alfred.commands:WORKER",
    "memory": "cortext.agents.alfred.commands:MEMORY",
}
CONVERSATION = "cortext.agents.alfred.main:TALK"

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
    return run_command("alfred", CONVERSATION, arguments)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="alfred",
        description="Start a conversation with your assistant, or ask it one question.",
        formatter_class=Help,
    )
    parser.add_argument("question", nargs="*", help="a question; piped input is added after it, or in place of -")
    parser.add_argument("--model", default="", help="the model, as provider/name (default: from the settings)")
    parser.add_argument("--new", action="store_true", help="start a new session")
    parser.add_argument("--session", metavar="ID", default="", help="continue this session, of any tool")
    parser.add_argument("--json", action="store_true", help="print the answer to a question as JSON")
    return parser


def _talk(arguments: list[str]) -> int:
    """Start a conversation, or answer the question on the command line (`-`: on standard input)."""
    options = _parser().parse_args(arguments)
    if not options.question and not options.json:
        with echo_by_prompt_only():  # before the slow imports: people type before the prompt appears
            return _loop(options.model).talk(new=options.new, session=options.session)
    question = question_of(options.question or ["-"])
    if not question:
        raise UsageError("the question is empty", hint='use: alfred "question"')
    return _loop(options.model).once(question, new=options.new, session=options.session, as_json=options.json)


def _loop(model: str) -> AlfredLoop:
    from cortext.agents.alfred.loop import AlfredLoop

    return AlfredLoop(Stores(), model)


TALK = Command(_parser, _talk)


if __name__ == "__main__":
    main()
