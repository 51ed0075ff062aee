"""`cortext similar`: find sessions about the same topic."""

from __future__ import annotations

from argparse import ArgumentParser

from cortext.faces.cortext.commands._finding import bring_up_to_date
from cortext.faces.cortext.commands._which import HELP, which_row
from cortext.faces.cortext.commands.search import print_found, print_hits
from cortext.faces.terminal.args import Help, count
from cortext.faces.terminal.reading import stores_for


def parser() -> ArgumentParser:
    """Return the parser of this command."""
    made = ArgumentParser(
        prog="cortext similar",
        formatter_class=Help,
        description="Find sessions about the same topic as another, by what was said in them.",
        epilog="example:  cortext similar 014 --limit 5",
    )
    made.add_argument("session", nargs="+", help=HELP)
    made.add_argument("--limit", type=count, default=10, metavar="N", help="at most N results (default: 10)")
    made.add_argument("--json", action="store_true", help="print a JSON array of hits")
    return made


def run(arguments: list[str]) -> int:
    """Print the similar sessions."""
    options = parser().parse_args(arguments)
    stores = stores_for()
    search = stores.search()
    bring_up_to_date(search)
    row = which_row(stores.listing(), stores.workspace, " ".join(options.session))
    found = search.similar(row, limit=options.limit)
    if options.json:
        print_hits(found)
    elif found:
        print_found(found)
    else:
        print("No similar session was found.")
    return 0
