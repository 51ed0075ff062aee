"""`cortext restore`: back from the trash."""

from __future__ import annotations

from argparse import ArgumentParser

from cortext.faces.terminal.output import print_json
from cortext.faces.terminal.table import table
from cortext.model import clock
from cortext.services.library.json_views import trashed_json
from cortext.services.library.resolve import resolve_trashed
from cortext.services.library.stores import NamedStore, Trashed
from cortext.wiring.stores import Stores


def parser() -> ArgumentParser:
    """The command line."""
    made = ArgumentParser(
        prog="cortext restore", description="Bring a deleted session back; without a name, list the trash."
    )
    made.add_argument(
        "session", nargs="?", help="its own number (014), its id or the beginning of it, or its key in the trash"
    )
    made.add_argument("--json", action="store_true", help="the trash, or what came back, as JSON")
    return made


def run(arguments: list[str]) -> int:
    """List the trash, or restore the newest deletion of that name."""
    options = parser().parse_args(arguments)
    stores = Stores()
    items = [(named_store, item) for named_store in stores.all() for item in named_store.store.trash()]
    if options.session is None:
        return _list(items, as_json=options.json)
    hint = "`cortext restore` lists it: give its key"
    named_store, item = resolve_trashed(items, options.session, here=stores.workspace, hint=hint)
    session = named_store.store.restore(item.key)
    if options.json:
        print_json({"session": session.id, "message_count": session.message_count})
        return 0
    print(f"Restored {session.id} ({session.message_count} messages).")
    return 0


def _list(items: list[tuple[NamedStore, Trashed]], *, as_json: bool) -> int:
    if as_json:
        print_json([trashed_json(item, named_store.label) for named_store, item in items])
        return 0
    if not items:
        print("The trash is empty.")
        return 0
    rows = [(item.session_id, clock.ago(item.deleted_at), named_store.label, item.key) for named_store, item in items]
    print(table(("SESSION", "DELETED", "STORE", "KEY"), rows, styles=("cyan", "", "", "dim")))
    print("Bring one back with `cortext restore` and its number or its id.")
    return 0
