"""`cortext title`: name a conversation."""

from __future__ import annotations

from argparse import ArgumentParser

from cortext.errors import UsageError
from cortext.faces.cortext.commands._which import HELP_ID, which
from cortext.model.session import TITLED_BY_USER, Change
from cortext.safety import terminal
from cortext.wiring.stores import Stores


def parser() -> ArgumentParser:
    """The command line."""
    made = ArgumentParser(prog="cortext title", description="Show the title of a conversation, or give it another.")
    made.add_argument("session", help=HELP_ID)
    made.add_argument("title", nargs="*", help="the new title")
    return made


def run(arguments: list[str]) -> int:
    """Show or set."""
    options = parser().parse_args(arguments)
    found = which(Stores(), options.session, words=False)
    if options.title:
        words = " ".join(" ".join(options.title).split())
        if not words:
            raise UsageError("the new title is empty", kept="the old one stays", hint="cortext title ID WORDS")
        session = found.store.update(found.session.id, Change(title=words, extra=dict(TITLED_BY_USER)))
        print(terminal.line(f"{session.id}: {session.title}"))
    else:
        print(terminal.line(found.session.title))
    return 0
