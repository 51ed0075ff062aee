"""`cortext browse`: find a conversation on the screen, read it, and resume it."""

from __future__ import annotations

import sys
from argparse import ArgumentParser

from cortext.errors import UsageError
from cortext.faces.terminal.args import Help


def parser() -> ArgumentParser:
    """Return the parser of this command."""
    made = ArgumentParser(
        prog="cortext browse",
        formatter_class=Help,
        description="Browse all conversations on one screen: type to search, read the selected one beside the list, "
        "and press Enter to resume it in its AI tool (Ctrl-O: in another). The keys are shown at the bottom.",
        epilog="example:  cortext browse retry budget",
    )
    made.add_argument("words", nargs="*", help="the first search")
    made.add_argument("--here", action="store_true", help="only the current workspace")
    return made


def run(arguments: list[str]) -> int:
    """Show the browser; then start the tool."""
    options = parser().parse_args(arguments)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "the browser needs a terminal", hint="without one, use `cortext search WORDS` or `cortext list`"
        )
    from cortext.faces.cortext.browse.screen import Browser
    from cortext.faces.cortext.commands._finding import index_later
    from cortext.services.library.finder import Question
    from cortext.wiring import tools
    from cortext.wiring.stores import Stores

    stores = Stores()
    question = Question(text=" ".join(options.words), root=stores.here() if options.here else "")
    writers = tuple(writer.name for writer in tools.native_writers())
    chosen = Browser(stores.folder, stores.workspace, writers, index_later).run(question)
    if chosen is None:
        return 0
    from cortext.faces.cortext.commands import resume
    from cortext.faces.cortext.commands._resume_one import resume_one

    words = ["--ai", chosen.tool] if chosen.tool else []
    listing = stores.listing()
    return resume_one(stores, listing, [chosen.row], resume.parser().parse_args(words))
