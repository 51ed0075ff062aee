"""`cortext restore`: back from the trash."""

from __future__ import annotations

import json
from argparse import ArgumentParser

from cortext.errors import AmbiguousId, NotFound
from cortext.faces.terminal.table import table
from cortext.model import clock
from cortext.services.library.resolve import by_id, is_number
from cortext.services.library.stores import NamedStore, Trashed
from cortext.wiring.app import Wiring


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
    wiring = Wiring()
    items = [(place, item) for place in wiring.stores() for item in place.store.trash()]
    if options.session is None:
        return _list(items, as_json=options.json)
    place, item = _chosen(items, options.session, wiring.workspace)
    session = place.store.restore(item.key)
    if options.json:
        print(json.dumps({"session": session.id, "message_count": session.message_count}))
        return 0
    print(f"Restored {session.id} ({session.message_count} messages).")
    return 0


def _chosen(items: list[tuple[NamedStore, Trashed]], wanted: str, here: str) -> tuple[NamedStore, Trashed]:
    """The newest deletion of that name; of several stores, the one in the workspace that we stand in."""
    found = [pair for pair in items if pair[1].key == wanted]
    found = found or by_id(((item.session_id, (place, item)) for place, item in items), wanted)
    if is_number(wanted) and here:
        found = [pair for pair in found if pair[0].root == here]
    found = [pair for pair in found if pair[0].root == here] or found
    if not found:
        raise NotFound(f"nothing in the trash is called {wanted!r}", hint="`cortext restore` lists it")
    if len({(place.root, item.session_id) for place, item in found}) > 1:
        names = ", ".join(dict.fromkeys(f"{item.session_id} of {place.label}" for place, item in found))
        raise AmbiguousId(
            f"{wanted!r} could be: {names}", kept="nothing was changed", hint="give its key; `cortext restore` lists it"
        )
    return found[0]


def _list(items: list[tuple[NamedStore, Trashed]], *, as_json: bool) -> int:
    if as_json:
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
    print("Bring one back with `cortext restore` and its number or its id.")
    return 0
