"""`cortext browse`: find a conversation on the screen, read it, and resume it."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from cortext.errors import UsageError
from cortext.faces.cortext.commands._filters import add_filters
from cortext.faces.terminal.args import Help

if TYPE_CHECKING:
    from cortext.services.library.finder import Question
    from cortext.wiring.stores import Stores


def parser() -> ArgumentParser:
    """Return the parser of this command."""
    made = ArgumentParser(
        prog="cortext browse",
        formatter_class=Help,
        description="Browse all conversations on one screen: type to search, read the selected one beside the list, "
        "and press Enter to resume it in its AI tool (Ctrl-O: in another). The keys are shown at the bottom.",
        epilog="examples:  cortext browse retry budget  ·  cortext browse --tool claude,codex --after 7d",
    )
    made.add_argument("words", nargs="*", help="the first search")
    add_filters(made, without=("agent", "workspace"))
    return made


def asked(options: Namespace, stores: Stores) -> Question:
    """Return the first question."""
    import os

    from cortext.services.library.finder import ARCHIVED, STARRED, Question, split_tags

    flags = [name for name, on in ((STARRED, options.starred), (ARCHIVED, options.archived)) if on]
    given = [f"#{tag}" for value in options.tag for tag in value.split(",")]
    question = Question(
        text=" ".join(options.words),
        tool=options.tool or "",
        type=options.type or "",
        status=options.status or "",
        root=stores.here() if options.here else "",
        tag=",".join([*given, *flags]),
        project=os.path.abspath(os.path.expanduser(options.project)) if options.project else "",
        after=options.after,
        before=options.before,
    )
    split_tags(question.tag)  # raises if one is invalid
    return question


def run(arguments: list[str]) -> int:
    """Show the browser; then start the tool."""
    options = parser().parse_args(arguments)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "the browser needs a terminal", hint="without one, use `cortext search WORDS` or `cortext list`"
        )
    from cortext.faces.cortext.browse.screen import Browser
    from cortext.faces.terminal.background import index_later
    from cortext.faces.terminal.reading import stores_for
    from cortext.wiring import tools

    stores = stores_for()
    question = asked(options, stores)
    writers = tuple(writer.name for writer in tools.native_writers())
    chosen = Browser(stores.folder, stores.workspace, writers, index_later).run(question)
    if chosen is None:
        return 0
    from cortext.faces.cortext.commands import resume
    from cortext.faces.cortext.commands._resume_one import resume_one

    words = ["--ai", chosen.tool] if chosen.tool else []
    listing = stores.listing()
    return resume_one(stores, listing, [chosen.row], resume.parser().parse_args(words))
