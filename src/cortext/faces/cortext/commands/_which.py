"""The session that a command is about: named in the same ways for every command (services/choose)."""

from __future__ import annotations

from cortext.services.library import last_list as shown
from cortext.services.library.listing import Listing, Row
from cortext.services.library.stores import Found
from cortext.wiring.app import Wiring

PROGRAM = "cortext"  # whose lists the numbers count in
HELP_ID = "its row in the last list (3), its own number (014), or its id or the beginning of it"
HELP = "its row in the last list (3), its own number (014), its id or the beginning of it, or words"


def which(wiring: Wiring, wanted: str, *, words: bool = True) -> Found:
    """The one that is meant. Without `words` only numbers and ids count: for what is not to hit another."""
    from cortext.services.library.resolve import is_number
    from cortext.services.library.stores import Found, exact

    there = exact(wiring.stores(), wanted) if not is_number(wanted) else []
    if len(there) == 1:
        return there[0]
    listing = wiring.listing()
    row = which_row(wiring, listing, wanted, words=words)
    place = listing.place(row.root)
    return Found(place, place.store.get(row.id))


def which_row(wiring: Wiring, listing: Listing, wanted: str, *, words: bool = True) -> Row:
    """Its row in the list of all sessions."""
    from cortext.services.library.resolve import Ways, choose

    listing.refresh()
    return choose(listing.rows(), wanted, Ways(wiring.workspace, shown.recall(PROGRAM), words))
