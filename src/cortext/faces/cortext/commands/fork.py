"""`cortext fork`: go another way from any message of a conversation."""

from __future__ import annotations

import json
from argparse import ArgumentParser

from cortext.faces.cortext.commands._which import HELP, which
from cortext.safety import terminal
from cortext.services.workspace.lifecycle import fork
from cortext.wiring.stores import Stores


def parser() -> ArgumentParser:
    """The command line."""
    made = ArgumentParser(
        prog="cortext fork",
        description="Make a new conversation out of another, up to one of its messages. The old one is unchanged.",
    )
    made.add_argument("session", nargs="+", help=HELP)
    made.add_argument(
        "--at", type=int, metavar="N", help="the last message to take (its #number in `show`); default: all"
    )
    made.add_argument("--json", action="store_true", help="the new session as JSON")
    return made


def run(arguments: list[str]) -> int:
    """Fork it."""
    options = parser().parse_args(arguments)
    found = which(Stores(), " ".join(options.session))
    made = fork(found.named_store, found.session, options.at)
    if options.json:
        print(json.dumps({"id": made.id, "path": made.path, "message_count": made.message_count}))
        return 0
    print(terminal.line(f"Forked {found.session.id} into {made.id} ({made.message_count} messages)."))
    print(f"Go on there: cortext resume {made.id}")
    return 0
