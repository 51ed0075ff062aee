"""`cortext new`, `stop`, `complete`, `fork`, `prune` and `sweep`: a conversation from its start to its end."""

from __future__ import annotations

import json
import os
from argparse import ArgumentParser
from functools import partial

import msgspec

from cortext.config.load import settings_of
from cortext.errors import NotFound
from cortext.faces.cortext.commands._listing import fresh_listing, print_notices
from cortext.faces.cortext.commands._which import HELP, HELP_ID, named, which
from cortext.faces.terminal.args import count_or_none
from cortext.faces.terminal.output import folded
from cortext.faces.terminal.progress import waiting
from cortext.faces.terminal.run import Command
from cortext.model.session import COMPLETED, DETAILS, PAUSED, Change, Details
from cortext.model.wording import amount
from cortext.safety import terminal
from cortext.services.library.stores import StoredConversation
from cortext.services.text.summary_check import describe
from cortext.services.workspace import notices
from cortext.services.workspace.auto_pause import sweep
from cortext.services.workspace.committing import finish_commits
from cortext.services.workspace.creating import begin, fork
from cortext.services.workspace.lifecycle import active, confirmation, plan_prune, prune, save
from cortext.services.workspace.pausing import ask_for_summary
from cortext.wiring.stores import Stores


def new_parser() -> ArgumentParser:
    """Return the parser."""
    command = ArgumentParser(
        prog="cortext new",
        description="Start a conversation: create its folder, its notes from the template, and its session.",
        epilog='example:  cortext new brainstorm "API design"',
    )
    command.add_argument("type", help="brainstorm, debug, plan, learn, meeting, review, or a type of your own")
    command.add_argument("topic", nargs="*", help="the topic, which becomes the title")
    command.add_argument("--json", action="store_true", help="print the session as JSON")
    return command


def run_new(arguments: list[str]) -> int:
    """Create it and print its path."""
    options = new_parser().parse_args(arguments)
    named_store = Stores().workspace_store()
    session = begin(named_store, options.type, " ".join(options.topic))
    if options.json:
        print(json.dumps({"id": session.id, "path": session.path, "title": session.title}, ensure_ascii=False))
        return 0
    print(terminal.line(f"Started {session.id} in {os.path.relpath(session.path)}"))
    print(f"Open it in your AI tool: cortext resume {session.id}")
    return 0


_ABOUT = {
    "stop": "Save a conversation and pause it: update its title and summary, and commit it to git. `cortext resume` "
    "continues it.",
    "complete": "Save a conversation and mark it as completed. `cortext resume --force` reopens it.",
}


def stop_parser(name: str = "stop") -> ArgumentParser:
    """Return the parser."""
    command = ArgumentParser(prog=f"cortext {name}", description=_ABOUT[name], epilog=f"example:  cortext {name} 014")
    command.add_argument("session", nargs="?", help=f"{HELP_ID} (default: the active one here)")
    command.add_argument("--summary", help="the summary to store (default: made from the text)")
    command.add_argument("--goal", default="", help="with --summary: what the user wants")
    command.add_argument("--decided", action="append", default=[], help="with --summary: a decision and its reason")
    command.add_argument("--open", action="append", default=[], help="with --summary: a point that is open")
    command.add_argument("--next", default="", help="with --summary: the next step")
    command.add_argument("--no-commit", action="store_true", help="save, but do not commit")
    command.add_argument("--in-tool", action="store_true", help="for slash commands in AI tools: never fail")
    command.add_argument("--json", action="store_true", help="print the result as JSON")
    return command


def run_stop(arguments: list[str], name: str = "stop") -> int:
    """Save it and print a confirmation."""
    options = stop_parser(name).parse_args(arguments)
    stores = Stores()
    try:
        if options.session is not None:
            conversation = which(stores, options.session, words=False)
        else:
            named_store = stores.workspace_store()
            conversation = StoredConversation(named_store, active(named_store))
    except NotFound as error:
        if (
            options.session is None
            and stores.workspace
            and not options.no_commit
            and _commit_earlier(stores, options.json)
        ):
            return 0
        if not options.in_tool:
            raise
        print(terminal.line(f"{error.message}. {error.hint}."))
        return 0
    conversation = stores.caught_up(conversation)
    details = Details(goal=options.goal, decided=options.decided, open=options.open, next=options.next)
    dropped: list[str] = []
    if options.in_tool and options.summary:
        dropped = describe(conversation.store, conversation.session.id, options.summary, details)
    elif options.summary:  # a person's own words are not checked
        written = Change(
            summary=" ".join(options.summary.split()),
            summary_by="user",
            summary_covers=conversation.session.line_count,
            extra={DETAILS: msgspec.to_builtins(details)},
        )
        conversation.store.update(conversation.session.id, written)
    status = PAUSED if name == "stop" else COMPLETED
    named_store = conversation.named_store
    commit = (
        named_store.kind == "workspace" and settings_of(named_store.root).workspace.commit and not options.no_commit
    )
    with waiting():
        saved = save(named_store, conversation.session.id, status, commit=commit)
    if not options.in_tool:
        print_notices()
    if options.json:
        print(msgspec.json.format(msgspec.json.encode(saved), indent=2).decode())
        return 0
    print(folded(terminal.block(confirmation(saved))))
    if saved.commit.commit:
        print(f"Committed as {saved.commit.commit}.")
    for line in dropped:
        print(terminal.line(f"Dropped: {line}"))
    if options.in_tool and not options.summary:
        print(f"\n{terminal.line(ask_for_summary(saved.session))}")
    return 0


def _commit_earlier(stores: Stores, as_json: bool) -> bool:
    """Make the commits that an earlier stop could not make, and report them; return whether there were any."""
    named_store = stores.workspace_store()
    if not settings_of(named_store.root).workspace.commit:
        return False
    with waiting():
        finished = finish_commits(named_store)
    if as_json and finished:
        commits = [{"session": session.id, "commit": msgspec.to_builtins(done)} for session, done in finished]
        print(msgspec.json.format(msgspec.json.encode(commits), indent=2).decode())
    for session, done in () if as_json else finished:
        name = f'"{session.title or session.id}", which was saved before, '
        said = f"is not committed to git yet: {done.problem}; {done.hint}" if done.problem else "is committed now"
        print(terminal.line(f"{name}{said}{f' as {done.commit}' if done.commit else ''}."))
    return bool(finished)


def fork_parser() -> ArgumentParser:
    """Return the parser."""
    copy = ArgumentParser(
        prog="cortext fork",
        description="Make a new conversation from another, up to one of its messages. The original is unchanged.",
        epilog="example:  cortext fork 014 --at 7",
    )
    copy.add_argument("session", nargs="+", help=HELP)
    copy.add_argument(
        "--at", type=int, metavar="N", help="the last message to copy, by its #number in `cortext show` (default: all)"
    )
    copy.add_argument("--json", action="store_true", help="print the new session as JSON")
    return copy


def run_fork(arguments: list[str]) -> int:
    """Fork it."""
    options = fork_parser().parse_args(arguments)
    stores = Stores()
    conversation = which(stores, " ".join(options.session))
    copy = fork(conversation.named_store, conversation.session, options.at, home=stores.home_store())
    if options.json:
        print(json.dumps({"id": copy.id, "path": copy.path, "message_count": copy.message_count}))
        return 0
    print(terminal.line(f"Forked {conversation.session.id} into {copy.id} ({amount(copy.message_count, 'message')})."))
    print(f"Continue there: cortext resume {copy.id}")
    return 0


def prune_parser() -> ArgumentParser:
    """Return the parser."""
    command = ArgumentParser(
        prog="cortext prune",
        description="Move the older messages of a conversation from its log to the archive beside it, after their key "
        "points are in the summary. They stay readable (`cortext show`) and in git; only the log gets shorter.",
        epilog="example:  cortext prune 014 --keep 100 --dry-run",
    )
    command.add_argument("session", help=HELP_ID)
    command.add_argument(
        "--keep",
        type=count_or_none,
        default=50,
        metavar="N",
        help="how many of the newest messages to keep in the log (default: 50)",
    )
    command.add_argument("-n", "--dry-run", action="store_true", help="only show what would move, and the summary")
    return command


def run_prune(arguments: list[str]) -> int:
    """Show what moves; then, unless it is a dry run, move it."""
    options = prune_parser().parse_args(arguments)
    conversation = which(Stores(), options.session, words=False)
    plan = plan_prune(conversation, options.keep)
    print(terminal.line(f"{named(conversation)}:"))
    if not plan.to_archive:
        print(f"Nothing to prune: {amount(plan.to_keep, 'message')}.")
        return 0
    print(terminal.line(f"{amount(plan.to_archive, 'message')} go to the archive, {plan.to_keep} stay. Summary:"))
    print(terminal.block(plan.summary))
    if not options.dry_run:
        print(f"Moved {amount(prune(conversation, plan), 'message')}.")
    return 0


def sweep_parser() -> ArgumentParser:
    """Return the parser."""
    command = ArgumentParser(
        prog="cortext sweep",
        description="Save and pause every active conversation that has been quiet for a while. `cortext resume` "
        "continues one.",
        epilog="for cron:  */5 * * * * cortext sweep --quiet",
    )
    command.add_argument(
        "--minutes", type=float, help="how long it must have been quiet (default: workspace.pause_minutes)"
    )
    command.add_argument("--quiet", action="store_true", help="print nothing; the next command reports what was paused")
    return command


def run_sweep(arguments: list[str]) -> int:
    """Pause quiet conversations, and report them."""
    options = sweep_parser().parse_args(arguments)
    stores = Stores()
    notes = sweep(fresh_listing(stores), settings_of, minutes=options.minutes)
    if options.quiet:
        notices.add(notes)
    else:
        for line in notes:
            print(terminal.line(line))
    return 0


NEW = Command(new_parser, run_new)
STOP = Command(stop_parser, run_stop)
FORK = Command(fork_parser, run_fork)
PRUNE = Command(prune_parser, run_prune)
SWEEP = Command(sweep_parser, run_sweep)
COMPLETE = Command(partial(stop_parser, "complete"), partial(run_stop, name="complete"))
