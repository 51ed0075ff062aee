"""`aur spawn`: parses the options and runs the requested action. Nothing heavy is imported before that."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from cortext.errors import UsageError
from cortext.faces.terminal.args import Help
from cortext.faces.terminal.reading import stores_for

STATUSES = ("active", "completed", "interrupted", "damaged")


def parser() -> ArgumentParser:
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


def run(arguments: list[str]) -> int:
    """Run the requested action; return the exit code."""
    options = parser().parse_args(arguments)
    _check(options)
    stores = stores_for(only_reads=options.list_sessions or options.restore == "")
    if options.list_sessions or options.delete_session is not None or options.restore is not None:
        from cortext.agents.aur import sessions

        sessions.expire(stores.settings)
        if options.list_sessions:
            return sessions.list_sessions(stores, options)
        if options.restore is not None:
            return sessions.restore(stores, options)
        return sessions.delete(stores, options)
    if options.clean_sessions is not None:
        from cortext.agents.aur import sessions

        return sessions.clean_sessions(stores, options)
    if options.interactive or (options.resume is not None and not options.prompt):
        from cortext.agents.terminal.interrupt import echo_by_prompt_only

        with echo_by_prompt_only():  # before the slow imports: people type before the prompt appears
            from cortext.agents.aur.loop import talk

            return talk(stores, options)
    from cortext.agents.aur.loop import ask_once

    return ask_once(stores, options)


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
        from cortext.agents.terminal.prompt import beginning

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
