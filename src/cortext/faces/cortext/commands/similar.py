"""`cortext similar`: sessions that are about the same."""

from __future__ import annotations

from argparse import ArgumentParser

from cortext.faces.cortext.commands._finding import up_to_date
from cortext.faces.cortext.commands._which import HELP, which_row
from cortext.faces.cortext.commands.search import print_found, print_hits
from cortext.faces.terminal.args import Help, count
from cortext.wiring.stores import Stores


def parser() -> ArgumentParser:
    """The command line."""
    made = ArgumentParser(
        prog="cortext similar",
        formatter_class=Help,
        description="Sessions that are about the same as one, by what was said in them.",
    )
    made.add_argument("session", nargs="+", help=HELP)
    made.add_argument("--limit", type=count, default=10, metavar="N", help="at most N of them (default 10)")
    made.add_argument("--json", action="store_true", help="a JSON array of hits")
    return made


def run(arguments: list[str]) -> int:
    """Print them."""
    options = parser().parse_args(arguments)
    stores = Stores()
    search = stores.search()
    up_to_date(search)
    row = which_row(stores.listing(), stores.workspace, " ".join(options.session))
    found = search.similar(row, limit=options.limit)
    if options.json:
        print_hits(found)
    elif found:
        print_found(found)
    else:
        print("No session is like it.")
    return 0
