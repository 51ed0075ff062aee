"""`cortext sweep`: pause conversations that have been quiet. For cron or a timer; other commands do it by the way."""

from __future__ import annotations

from argparse import ArgumentParser

from cortext.config.trust import settings_of
from cortext.faces.cortext.commands._listing import fresh_listing
from cortext.safety import terminal
from cortext.services.workspace import notices
from cortext.services.workspace.lifecycle import sweep
from cortext.wiring.stores import Stores


def parser() -> ArgumentParser:
    """The command line."""
    made = ArgumentParser(
        prog="cortext sweep",
        description="Save and pause every active conversation that was quiet for a while (workspace.pause_minutes).",
        epilog="cron:  */5 * * * * cortext sweep --quiet",
    )
    made.add_argument("--minutes", type=float, help="how long is quiet (default: the setting, 5)")
    made.add_argument("--quiet", action="store_true", help="say nothing now: the next command tells")
    return made


def run(arguments: list[str]) -> int:
    """Sweep, and say what was paused."""
    options = parser().parse_args(arguments)
    stores = Stores()
    told = sweep(fresh_listing(stores), settings_of, minutes=options.minutes)
    if options.quiet:
        notices.leave(told)
    else:
        for line in told:
            print(terminal.line(line))
    return 0
