"""`cortext sweep`: pause quiet conversations. For cron or a timer; other commands do it for their own workspace."""

from __future__ import annotations

from argparse import ArgumentParser

from cortext.config.trust import settings_of
from cortext.faces.cortext.commands._listing import fresh_listing
from cortext.safety import terminal
from cortext.services.workspace import notices
from cortext.services.workspace.lifecycle import sweep
from cortext.wiring.stores import Stores


def parser() -> ArgumentParser:
    """Return the parser of this command."""
    made = ArgumentParser(
        prog="cortext sweep",
        description="Save and pause every active conversation that has been quiet for a while. `cortext resume` "
        "continues one.",
        epilog="for cron:  */5 * * * * cortext sweep --quiet",
    )
    made.add_argument(
        "--minutes", type=float, help="how long it must have been quiet (default: workspace.pause_minutes)"
    )
    made.add_argument("--quiet", action="store_true", help="print nothing; the next command reports what was paused")
    return made


def run(arguments: list[str]) -> int:
    """Pause quiet conversations, and report them."""
    options = parser().parse_args(arguments)
    stores = Stores()
    notes = sweep(fresh_listing(stores), settings_of, minutes=options.minutes)
    if options.quiet:
        notices.add(notes)
    else:
        for line in notes:
            print(terminal.line(line))
    return 0
