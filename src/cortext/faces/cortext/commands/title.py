"""`cortext title`: show or change the title of a conversation."""

from __future__ import annotations

from argparse import ArgumentParser

from cortext.errors import UsageError
from cortext.faces.cortext.commands._which import HELP_ID, which
from cortext.faces.terminal.reading import stores_for
from cortext.model.session import TITLED_BY_USER, Change
from cortext.safety import terminal


def parser() -> ArgumentParser:
    """Return the parser of this command."""
    made = ArgumentParser(
        prog="cortext title",
        description="Show the title of a conversation, or change it.",
        epilog="example:  cortext title 014 API design",
    )
    made.add_argument("session", help=HELP_ID)
    made.add_argument("title", nargs="*", help="the new title (default: show the current one)")
    return made


def run(arguments: list[str]) -> int:
    """Print the title, or set it."""
    options = parser().parse_args(arguments)
    found = which(stores_for(only_reads=not options.title), options.session, words=False)
    if options.title:
        new_title = " ".join(" ".join(options.title).split())
        if not new_title:
            raise UsageError("the new title is empty", kept="the old one stays", hint="use cortext title ID WORDS")
        session = found.store.update(found.session.id, Change(title=new_title, extra=dict(TITLED_BY_USER)))
        print(terminal.line(f"{session.id}: {session.title}"))
    else:
        print(terminal.line(found.session.title))
    return 0
