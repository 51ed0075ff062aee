"""The session that a command is about: named in every way that `cortext resume` understands."""

from __future__ import annotations

from cortext.services.choose import by_id, candidates, only, prefer_here
from cortext.services.stores import Found, exact
from cortext.wiring import Wiring

HELP = "its id, the beginning of it, its number in the list, or words"
HELP_ID = "its id, or the beginning of it"


def which(wiring: Wiring, wanted: str, *, words: bool = True) -> Found:
    """The one that is meant. Without `words` only an id or its beginning counts: for what is not to hit another."""
    there = exact(wiring.stores(), wanted)
    if len(there) == 1:
        return there[0]
    listing = wiring.listing()
    listing.refresh()
    rows = listing.rows()
    matches = candidates(rows, wanted) if words else by_id(rows, wanted)
    row = only(prefer_here(matches, wiring.workspace, wanted), rows, wanted)
    place = listing.place(row.root)
    return Found(place, place.store.get(row.id))
