"""`cortext restore`: back from the trash."""

from __future__ import annotations

from argparse import ArgumentParser

from cortext.errors import NotFound
from cortext.faces.terminal.table import table
from cortext.model import clock
from cortext.services.stores import NamedStore, Trashed
from cortext.wiring import Wiring


def parser() -> ArgumentParser:
    """The command line."""
    made = ArgumentParser(
        prog="cortext restore", description="Bring a deleted session back; without a name, list the trash."
    )
    made.add_argument("session", nargs="?", help="the session's id, or its key in the trash")
    made.add_argument("--json", action="store_true", help="the trash, or what came back, as JSON")
    return made


def run(arguments: list[str]) -> int:
    """List the trash, or restore the newest deletion of that name."""
    options = parser().parse_args(arguments)
    items = [(place, item) for place in Wiring().stores() for item in place.store.trash()]
    if options.session is None:
        return _list(items, as_json=options.json)
    chosen = [pair for pair in items if options.session in (pair[1].key, pair[1].session_id)]
    if not chosen:
        raise NotFound(f"nothing in the trash is called {options.session!r}", hint="`cortext restore` lists it")
    place, item = chosen[0]
    session = place.store.restore(item.key)
    if options.json:
        import json

        print(json.dumps({"session": session.id, "message_count": session.message_count}))
        return 0
    print(f"Restored {session.id} ({session.message_count} messages).")
    return 0


def _list(items: list[tuple[NamedStore, Trashed]], *, as_json: bool) -> int:
    if as_json:
        import json

        print(
            json.dumps(
                [
                    {"session": i.session_id, "key": i.key, "deleted_at": i.deleted_at, "store": p.label}
                    for p, i in items
                ],
                indent=2,
            )
        )
        return 0
    if not items:
        print("The trash is empty.")
        return 0
    rows = [(item.session_id, clock.ago(item.deleted_at), place.label, item.key) for place, item in items]
    print(table(("SESSION", "DELETED", "STORE", "KEY"), rows, styles=("cyan", "", "", "dim")))
    return 0
