"""`cortext prune`: move older messages out of the working history, behind a summary that covers them."""

from __future__ import annotations

from argparse import ArgumentParser

from cortext.faces.cortext.commands._which import HELP_ID, named, which
from cortext.faces.terminal.args import count_or_none
from cortext.model.amounts import amount
from cortext.safety import terminal
from cortext.services.workspace.prune import plan_prune, prune
from cortext.wiring.stores import Stores


def parser() -> ArgumentParser:
    """Return the parser of this command."""
    made = ArgumentParser(
        prog="cortext prune",
        description="Move the older messages of a conversation from its log to the archive beside it, after their key "
        "points are in the summary. They stay readable (`cortext show`) and in git; only the log gets shorter.",
        epilog="example:  cortext prune 014 --keep 100 --dry-run",
    )
    made.add_argument("session", help=HELP_ID)
    made.add_argument(
        "--keep",
        type=count_or_none,
        default=50,
        metavar="N",
        help="how many of the newest messages to keep in the log (default: 50)",
    )
    made.add_argument("-n", "--dry-run", action="store_true", help="only show what would move, and the summary")
    return made


def run(arguments: list[str]) -> int:
    """Show what moves; then, unless it is a dry run, move it."""
    options = parser().parse_args(arguments)
    found = which(Stores(), options.session, words=False)
    plan = plan_prune(found, options.keep)
    print(terminal.line(f"{named(found)}:"))
    if not plan.to_archive:
        print(f"Nothing to prune: {amount(plan.to_keep, 'message')}.")
        return 0
    print(terminal.line(f"{amount(plan.to_archive, 'message')} go to the archive, {plan.to_keep} stay. Summary:"))
    print(terminal.block(plan.summary))
    if not options.dry_run:
        print(f"Moved {amount(prune(found, plan), 'message')}.")
    return 0
