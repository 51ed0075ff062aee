"""`cortext browse`: find a conversation on the screen, read it, and resume it."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from cortext.errors import UsageError
from cortext.faces.terminal.args import Help, add_filters, filters_of, stores_for
from cortext.faces.terminal.run import index_later
from cortext.model.order import tag_name
from cortext.model.query import AMONG, FILTERS, Query, several
from cortext.wiring import tools

if TYPE_CHECKING:
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


def first_query(options: Namespace, stores: Stores) -> Query:
    """Return the first query. Raises UsageError if a filter is invalid."""
    filters = filters_of(options)
    if "tag" in filters:
        filters["tag"] = ",".join(map(tag_name, several(filters["tag"])))
    for name in filters:
        if FILTERS[name].compare == AMONG:
            filters[name] = os.path.abspath(os.path.expanduser(filters[name]))
    return Query(" ".join(options.words), filters, roots=[stores.here()] if options.here else None)


def run(arguments: list[str]) -> int:
    """Show the browser; then start the tool."""
    options = parser().parse_args(arguments)
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "the browser needs a terminal", hint="without one, use `cortext search WORDS` or `cortext list`"
        )
    from cortext.faces.cortext.browse.screen import Browser

    stores = stores_for()
    query = first_query(options, stores)
    writers = tuple(writer.name for writer in tools.native_writers())
    chosen = Browser(stores.folder, stores.workspace, writers, index_later).run(query)
    if chosen is None:
        return 0
    from cortext.faces.cortext.commands import _resume_one, resume

    words = ["--ai", chosen.tool] if chosen.tool else []
    listing = stores.listing()
    return _resume_one.resume_one(stores, listing, [chosen.row], resume.parser().parse_args(words))
