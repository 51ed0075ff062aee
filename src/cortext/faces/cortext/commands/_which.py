"""Find the session that a command names, in the same way for every command (services/library/resolve)."""

from __future__ import annotations

from collections.abc import Sequence

from cortext.safety.framing import field
from cortext.services.library import last_list
from cortext.services.library.listing import Listing, Row
from cortext.services.library.resolve import Resolver, refuse_namesake, with_exact_id
from cortext.services.library.stores import Found
from cortext.wiring.stores import Stores

PROGRAM = "cortext"  # whose last list row numbers refer to
HELP_ID = "the session: its row in the last list (3), its number (014), or its id or a prefix of it"
HELP = "the session: its row in the last list (3), its number (014), its id or a prefix of it, or words"


def which(stores: Stores, wanted: str, *, words: bool = True) -> Found:
    """Return the session that is meant. Without `words`, only numbers and ids count: for commands that change it."""
    found = with_exact_id(stores.all(), wanted)
    if len(found) != 1:
        listing = stores.listing()
        row = which_row(listing, stores.workspace, wanted, words=words)
        named_store = listing.named_store(row.root)
        found = [Found(named_store, named_store.store.get(row.id))]
    if not words and stores.workspace:
        refuse_namesake(stores.workspace_store(), found[0].root, found[0].session.id)
    return found[0]


def named(found: Found) -> str:
    """Return how a command that changes a session names it: id, title and store."""
    return named_as(found.session.id, found.session.title, found.root)


def named_as(session_id: str, title: str, root: str) -> str:
    """Return the same for what is known of a session."""
    shown = f' ("{field(title)}")' if title else ""
    return f"{session_id}{shown} in {root}"


def which_row(listing: Listing, workspace: str, wanted: str, *, words: bool = True) -> Row:
    """Return its row in the list of all sessions."""
    listing.refresh()
    return resolver(listing.named(wanted, last_list.recall(PROGRAM)), workspace).resolve(wanted, words=words)


def resolver(rows: Sequence[Row], workspace: str) -> Resolver:
    """Return the resolver of `cortext`: for this workspace, with the row numbers of its last list."""
    return Resolver(rows, workspace, last_list.recall(PROGRAM))
