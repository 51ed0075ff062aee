"""`cortext archive`: hide conversations from lists."""

from __future__ import annotations

from argparse import ArgumentParser

from cortext.faces.cortext.commands._order import add_options, change
from cortext.faces.cortext.commands._which import HELP_ID
from cortext.faces.terminal.args import Help
from cortext.model.order import ARCHIVE


def parser() -> ArgumentParser:
    """Return the parser of this command."""
    made = ArgumentParser(
        prog="cortext archive",
        formatter_class=Help,
        description="Hide conversations from lists. They are kept, search still finds them, and they can be resumed; "
        "`cortext list --archived` shows them. --remove takes them out of the archive.",
        epilog="examples:  cortext archive 014  ·  cortext archive --status completed --before 6m --dry-run",
    )
    made.add_argument("session", nargs="*", help=HELP_ID)
    add_options(made, "take them out of the archive")
    return made


def run(arguments: list[str]) -> int:
    """Archive conversations."""
    options = parser().parse_args(arguments)
    return change(options, ARCHIVE, options.session)
