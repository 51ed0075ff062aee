"""`aur spawn`: what was asked for, by its options. Nothing heavy is imported before that is known."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

from cortext.errors import UsageError
from cortext.faces.terminal.args import Help
from cortext.wiring.stores import Stores

STATUSES = ("active", "completed", "interrupted", "damaged")


def parser() -> ArgumentParser:
    """The command line."""
    made = ArgumentParser(
        prog="aur spawn",
        formatter_class=Help,
        description="Talk with an agent, go on with an old talk, ask one question, or keep the sessions in order. "
        "Every word is stored before the next step; a session that was killed is continued with --resume.",
        epilog="Slash commands in the loop: /help. Agents: aur agents. Models: provider/name, for example "
        "anthropic/claude-sonnet-5-5, openai/gpt-5.5, ollama/qwen3 or cli/claude; the first one usable here if none is "
        "named.",
    )
    about = "one question: the answer goes to standard output; what comes through a pipe stands after it, or at -"
    made.add_argument("prompt", nargs="*", help=about)
    talk = made.add_argument_group("talking")
    talk.add_argument("-i", "--interactive", action="store_true", help="a talk in the terminal")
    talk.add_argument("--agent", metavar="NAME", help="who answers (with --list-sessions: only this agent's)")
    talk.add_argument("--model", metavar="M", default="", help="the model that answers, as provider/name")
    talk.add_argument("--session", metavar="NAME", default="", help="the id of the new session")
    talk.add_argument(
        "--resume",
        metavar="ID",
        help="go on with it: its row in the last list (3), its id or the beginning of it, or words",
    )
    keep = made.add_argument_group("sessions")
    keep.add_argument("--list-sessions", action="store_true", help="a table of all sessions, the newest first")
    keep.add_argument("--status", choices=STATUSES, help="with --list-sessions: only these")
    keep.add_argument(
        "--delete-session", metavar="ID", help="move a session to the trash: its row in the last list, or its id"
    )
    keep.add_argument("--restore", metavar="ID", nargs="?", const="", help="bring one back; without ID, list the trash")
    keep.add_argument("--clean-sessions", metavar="DAYS", help="trash every session that was quiet for longer")
    made.add_argument("--yes", "-y", action="store_true", help="do not ask")
    made.add_argument("--json", action="store_true", help="answer as JSON")
    return made


def run(arguments: list[str]) -> int:
    """Do what was asked."""
    options = parser().parse_args(arguments)
    _check(options)
    stores = Stores()
    if options.list_sessions or options.delete_session is not None or options.restore is not None:
        from cortext.faces.aur import sessions

        sessions.expire(stores.settings)
        if options.list_sessions:
            return sessions.list_sessions(stores, options)
        if options.restore is not None:
            return sessions.restore(stores, options)
        return sessions.delete(stores, options)
    if options.clean_sessions is not None:
        from cortext.faces.aur import sessions

        return sessions.clean_sessions(stores, options)
    if options.interactive or (options.resume is not None and not options.prompt):
        from cortext.faces.terminal.talk.interrupt import echo_by_prompt_only

        with echo_by_prompt_only():  # first of all: people type before the prompt is there
            from cortext.faces.aur.loop import talk

            return talk(stores, options)
    from cortext.faces.aur.once import ask_once

    return ask_once(stores, options)


def _check(options: Namespace) -> None:
    """Only one thing at a time, and something to do."""
    wanted = [
        name
        for name, there in (
            ("--list-sessions", options.list_sessions),
            ("--delete-session", options.delete_session is not None),
            ("--restore", options.restore is not None),
            ("--clean-sessions", options.clean_sessions is not None),
            ("a question" if options.prompt else "a talk", options.prompt or options.interactive or options.resume),
        )
        if there
    ]
    if not wanted:
        raise UsageError("what shall it be?", hint='aur spawn -i to talk, aur spawn "question", or aur spawn --help')
    if len(wanted) > 1:
        raise UsageError(f"{' and '.join(wanted)} at once", hint="one at a time")
    if options.prompt and options.interactive:
        raise UsageError("a question and -i at once", hint="begin the talk with -i, and ask there")
    if options.resume is not None and options.session:
        raise UsageError("--resume and --session at once", hint="--session names a new session")
    if options.status and not options.list_sessions:
        raise UsageError("--status goes with --list-sessions")
