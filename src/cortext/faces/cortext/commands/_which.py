"""The session that a command is about: named in the same ways for every command (services/library/resolve)."""

from __future__ import annotations

from collections.abc import Sequence

from cortext.services.library import last_list
from cortext.services.library.listing import Listing, Row
from cortext.services.library.resolve import Resolver
from cortext.services.library.stores import Found
from cortext.wiring.app import Wiring

PROGRAM = "cortext"  # whose lists the numbers count in
HELP_ID = "its row in the last list (3), its own number (014), or its id or the beginning of it"
HELP = "its row in the last list (3), its own number (014), its id or the beginning of it, or words"


def which(wiring: Wiring, wanted: str, *, words: bool = True) -> Found:
    """The one that is meant. Without `words` only numbers and ids count: for what is not to hit another."""
    from cortext.services.library.resolve import exact
    from cortext.services.library.stores import Found

    found = exact(wiring.stores(), wanted)
    if len(found) == 1:
        return found[0]
    listing = wiring.listing()
    row = which_row(wiring, listing, wanted, words=words)
    place = listing.place(row.root)
    return Found(place, place.store.get(row.id))


def which_row(wiring: Wiring, listing: Listing, wanted: str, *, words: bool = True) -> Row:
    """Its row in the list of all sessions."""
    listing.refresh()
    return resolver(wiring, listing.rows()).resolve(wanted, words=words)


def resolver(wiring: Wiring, rows: Sequence[Row]) -> Resolver:
    """What names mean for `cortext`: in the workspace here, counted in its last list."""
    from cortext.services.library.resolve import Resolver

    return Resolver(rows, wiring.workspace, last_list.recall(PROGRAM))
