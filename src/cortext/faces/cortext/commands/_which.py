"""The session that a command is about: named in the same ways for every command (services/library/resolve)."""

from __future__ import annotations

from collections.abc import Sequence

from cortext.services.library import last_list
from cortext.services.library.listing import Listing, Row
from cortext.services.library.resolve import Resolver, with_exact_id
from cortext.services.library.stores import Found
from cortext.wiring.stores import Stores

PROGRAM = "cortext"  # whose lists the numbers count in
HELP_ID = "its row in the last list (3), its own number (014), or its id or the beginning of it"
HELP = "its row in the last list (3), its own number (014), its id or the beginning of it, or words"


def which(stores: Stores, wanted: str, *, words: bool = True) -> Found:
    """The one that is meant. Without `words` only numbers and ids count: for what is not to hit another."""
    found = with_exact_id(stores.all(), wanted)
    if len(found) == 1:
        return found[0]
    listing = stores.listing()
    row = which_row(listing, stores.workspace, wanted, words=words)
    named_store = listing.named_store(row.root)
    return Found(named_store, named_store.store.get(row.id))


def which_row(listing: Listing, workspace: str, wanted: str, *, words: bool = True) -> Row:
    """Its row in the list of all sessions."""
    listing.refresh()
    return resolver(listing.rows(), workspace).resolve(wanted, words=words)


def resolver(rows: Sequence[Row], workspace: str) -> Resolver:
    """What names mean for `cortext`: in the workspace here, counted in its last list."""
    return Resolver(rows, workspace, last_list.recall(PROGRAM))
