"""`cortext fork`: branch off at any message of a conversation."""

from __future__ import annotations

import json
from argparse import ArgumentParser

from cortext.faces.cortext.commands._which import HELP, which
from cortext.model.amounts import amount
from cortext.safety import terminal
from cortext.services.workspace.lifecycle import fork
from cortext.wiring.stores import Stores


def parser() -> ArgumentParser:
    """Return the parser of this command."""
    made = ArgumentParser(
        prog="cortext fork",
        description="Make a new conversation from another, up to one of its messages. The original is unchanged.",
        epilog="example:  cortext fork 014 --at 7",
    )
    made.add_argument("session", nargs="+", help=HELP)
    made.add_argument(
        "--at", type=int, metavar="N", help="the last message to copy, by its #number in `cortext show` (default: all)"
    )
    made.add_argument("--json", action="store_true", help="print the new session as JSON")
    return made


def run(arguments: list[str]) -> int:
    """Fork it."""
    options = parser().parse_args(arguments)
    stores = Stores()
    found = which(stores, " ".join(options.session))
    made = fork(found.named_store, found.session, options.at, home=stores.home_store())
    if options.json:
        print(json.dumps({"id": made.id, "path": made.path, "message_count": made.message_count}))
        return 0
    print(terminal.line(f"Forked {found.session.id} into {made.id} ({amount(made.message_count, 'message')})."))
    print(f"Continue there: cortext resume {made.id}")
    return 0
