"""`aur`: conversations with agents in the terminal. `aur spawn` parses its options and runs the requested action.

Nothing heavy is imported before that.
"""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from contextlib import nullcontext

from cortext import __version__
from cortext.agents.aur import sessions
from cortext.agents.terminal.interrupt import echo_by_prompt_only
from cortext.agents.terminal.prompt import beginning
from cortext.errors import UsageError
from cortext.faces.terminal.args import Help, stores_for
from cortext.faces.terminal.run import Command, note_untrusted_workspace, run_command, run_process, unknown_command

PACKAGE = "cortext.agents.aur"
COMMANDS = {"spawn": "main:SPAWN", "agents": "open_session:AGENTS"}

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


STATUSES = ("active", "completed", "interrupted", "damaged")


def _parser() -> ArgumentParser:
    """Return the parser of the command line."""
    command_line = ArgumentParser(
        prog="aur spawn",
        formatter_class=Help,
        description="Start or resume a conversation with an agent, ask one question, or manage the sessions. Every "
        "message is stored before the next step; a session whose process was killed can be continued with --resume.",
        epilog="Slash commands of a conversation: /help. Agents: aur agents. Models: provider/name, for example "
        "anthropic/claude-sonnet-5-5, openai/gpt-5.5, ollama/qwen3 or cli/claude; default: the first one usable here.",
    )
    about = "one question, answered on standard output; piped input is added after it, or in place of -"
    command_line.add_argument("prompt", nargs="*", help=about)
    conversation = command_line.add_argument_group("conversation")
    conversation.add_argument("-i", "--interactive", action="store_true", help="start a conversation in the terminal")
    conversation.add_argument(
        "--agent", metavar="NAME", help="the agent that answers (with --list-sessions: only its sessions)"
    )
    conversation.add_argument("--model", metavar="M", default="", help="the model that answers, as provider/name")
    conversation.add_argument("--session", metavar="NAME", default="", help="the id of the new session")
    conversation.add_argument(
        "--resume",
        metavar="ID",
        help="continue a session: its row in the last list (3), its id or the beginning of it, or words from it",
    )
    sessions = command_line.add_argument_group("sessions")
    sessions.add_argument("--list-sessions", action="store_true", help="list all sessions, newest first")
    about = "with --list-sessions: only archived sessions, which are otherwise left out (cortext archive)"
    sessions.add_argument("--archived", action="store_true", help=about)
    sessions.add_argument("--status", choices=STATUSES, help="with --list-sessions: only sessions with this status")
    sessions.add_argument(
        "--delete-session", metavar="ID", help="move a session to the trash: its row in the last list, or its id"
    )
    sessions.add_argument(
        "--restore", metavar="ID", nargs="?", const="", help="restore a deleted session; without ID, list the trash"
    )
    sessions.add_argument(
        "--clean-sessions", metavar="DAYS", help="move the sessions that were inactive for longer to the trash"
    )
    command_line.add_argument("--yes", "-y", action="store_true", help="do not ask for confirmation")
    command_line.add_argument("--json", action="store_true", help="print JSON")
    return command_line


def _spawn(arguments: list[str]) -> int:
    """Run the requested action; return the exit code."""
    options = _parser().parse_args(arguments)
    _check(options)
    stores = stores_for(only_reads=options.list_sessions or options.restore == "")
    if options.list_sessions or options.delete_session is not None or options.restore is not None:
        sessions.expire(stores.settings)
        if options.list_sessions:
            return sessions.list_sessions(stores, options)
        if options.restore is not None:
            return sessions.restore(stores, options)
        return sessions.delete(stores, options)
    if options.clean_sessions is not None:
        return sessions.clean_sessions(stores, options)
    is_conversation = options.interactive or (options.resume is not None and not options.prompt)
    with echo_by_prompt_only() if is_conversation else nullcontext():
        from cortext.agents.aur.loop import ask_once, talk  # slow: people type before the prompt appears

        return talk(stores, options) if is_conversation else ask_once(stores, options)


def _check(options: Namespace) -> None:
    """Raise UsageError unless exactly one action is requested, with options that belong to it."""
    actions = [
        name
        for name, requested in (
            ("--list-sessions", options.list_sessions),
            ("--delete-session", options.delete_session is not None),
            ("--restore", options.restore is not None),
            ("--clean-sessions", options.clean_sessions is not None),
            (
                "a question" if options.prompt else "a conversation",
                options.prompt or options.interactive or options.resume,
            ),
        )
        if requested
    ]
    if not actions:
        if beginning():
            raise UsageError("nothing to do: piped text alone is not a question", hint="ask it with: aur spawn -")
        raise UsageError("nothing to do", hint="pass -i or a question; aur spawn --help lists the options")
    if len(actions) > 1:
        raise UsageError(f"{' and '.join(actions)} cannot be combined", hint="use one of them at a time")
    if options.prompt and options.interactive:
        raise UsageError("a question and -i cannot be combined", hint="start with -i and ask there")
    if options.resume is not None and options.session:
        raise UsageError("--resume and --session cannot be combined", hint="use --session only for a new session")
    if (options.status or options.archived) and not options.list_sessions:
        name = "--status" if options.status else "--archived"
        raise UsageError(f"{name} requires --list-sessions", hint="add --list-sessions")


SPAWN = Command(_parser, _spawn)


if __name__ == "__main__":
    main()
