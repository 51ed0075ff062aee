"""`cortext star`: mark conversations with a star."""

from __future__ import annotations

from argparse import ArgumentParser

from cortext.faces.cortext.commands._order import add_options, change
from cortext.faces.cortext.commands._which import HELP_ID
from cortext.faces.terminal.args import Help
from cortext.model.order import STAR


def parser() -> ArgumentParser:
    """Return the parser of this command."""
    made = ArgumentParser(
        prog="cortext star",
        formatter_class=Help,
        description="Mark conversations with a star: `cortext list --starred` shows them. --remove takes it away.",
        epilog="examples:  cortext star 014  ·  cortext star --tag billing --dry-run",
    )
    made.add_argument("session", nargs="*", help=HELP_ID)
    add_options(made, "take the star away")
    return made


def run(arguments: list[str]) -> int:
    """Star conversations."""
    options = parser().parse_args(arguments)
    return change(options, STAR, options.session)
