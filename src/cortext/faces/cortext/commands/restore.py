"""`cortext restore`: restore a session from the trash."""

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
    """Return the parser of this command."""
    made = ArgumentParser(
        prog="cortext restore",
        description="Restore a deleted session from the trash; without a name, list the trash.",
        epilog="example:  cortext restore 014",
    )
    made.add_argument(
        "session", nargs="?", help="the session: its number (014), its id or a prefix of it, or its key in the trash"
    )
    made.add_argument("--json", action="store_true", help="print the trash, or the restored session, as JSON")
    return made


def run(arguments: list[str]) -> int:
    """List the trash, or restore the most recently deleted session of that name."""
    options = parser().parse_args(arguments)
    stores = Stores()
    items = [(named_store, item) for named_store in stores.all() for item in named_store.store.trash()]
    if options.session is None:
        return _list(items, as_json=options.json)
    hint = "list the trash with `cortext restore`, then give the key"
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
    print("Restore one with `cortext restore` and its number, id or key.")
    return 0
