"""`cortext delete`: move a session to the trash, from which it can be restored."""

from __future__ import annotations

from argparse import ArgumentParser

from cortext.faces.cortext.commands._which import HELP_ID, named, which
from cortext.faces.terminal.output import print_json
from cortext.model.amounts import amount
from cortext.safety import terminal
from cortext.services.library.json_views import trashed_json
from cortext.wiring.stores import Stores


def parser() -> ArgumentParser:
    """Return the parser of this command."""
    made = ArgumentParser(
        prog="cortext delete",
        description="Move a session to the trash of its store. `cortext restore` brings it back.",
        epilog="example:  cortext delete 014",
    )
    made.add_argument("session", help=HELP_ID)
    made.add_argument("--json", action="store_true", help="print what was moved as JSON")
    return made


def run(arguments: list[str]) -> int:
    """Delete one session."""
    options = parser().parse_args(arguments)
    found = which(Stores(), options.session, words=False)
    trashed = found.store.delete(found.session.id)
    if options.json:
        print_json(trashed_json(trashed))
        return 0
    count = amount(found.session.message_count, "message")
    print(terminal.line(f"Moved {named(found)}, {count}, to the trash."))
    print(f"Undo: cortext restore {trashed.key}")
    return 0
