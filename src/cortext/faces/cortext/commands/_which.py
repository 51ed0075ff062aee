"""The session that a command is about, in the same way for every command: the one that is named
(`services/library/resolve`), or that the user picks among several."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from cortext.model import clock
from cortext.safety import terminal
from cortext.safety.framing import field
from cortext.services.library import last_command
from cortext.services.library.last_command import PROGRAM
from cortext.services.library.listing import Listing, Row, placed
from cortext.services.library.resolve import Resolver, contains, refuse_namesake, with_exact_id
from cortext.services.library.stores import StoredConversation
from cortext.wiring.stores import Stores

HELP_ID = "the session: its row in the last list or search (3), its number (014), or its id or a prefix of it"
HELP = "the session: its row in the last list or search (3), its number (014), its id or a prefix of it, or words"
MOST_MATCHES = 20  # shown if several match


def which(stores: Stores, wanted: str, *, words: bool = True) -> StoredConversation:
    """Return the session that is meant. Without `words`, only numbers and ids count: for commands that change it."""
    found = with_exact_id(stores.all(), wanted)
    if len(found) != 1:
        listing = stores.listing()
        row = which_row(listing, stores.workspace, wanted, words=words)
        named_store = listing.named_store(row.root)
        found = [StoredConversation(named_store, named_store.store.get(row.id))]
    if not words and stores.workspace:
        refuse_namesake(stores.workspace_store(), found[0].root, found[0].session.id)
    return found[0]


def named(conversation: StoredConversation) -> str:
    """Return how a command that changes a session names it: id, title and store."""
    return named_as(conversation.session.id, conversation.session.title, conversation.root)


def named_as(session_id: str, title: str, root: str) -> str:
    """Return the same for what is known of a session."""
    shown = f' ("{field(title)}")' if title else ""
    return f"{session_id}{shown} in {root}"


def which_row(listing: Listing, workspace: str, wanted: str, *, words: bool = True) -> Row:
    """Return its row in the list of all sessions."""
    listing.refresh()
    return resolver(listing.named(wanted, last_command.recall_list(PROGRAM)), workspace).resolve(wanted, words=words)


def resolver(rows: Sequence[Row], workspace: str) -> Resolver:
    """Return the resolver of `cortext`: for this workspace, with the row numbers of its last list."""
    return Resolver(rows, workspace, last_command.recall_list(PROGRAM))


def choose(
    stores: Stores,
    listing: Listing,
    rows: list[Row],
    wanted: str | None,
    *,
    targets: Callable[[], tuple[str, ...]],
    is_silent: bool = False,
) -> tuple[Row | None, str]:
    """Return the conversation that is meant, and one of the `targets` if the user picked that, too.

    If several match, the user picks one; None if the user left. Without a terminal they are listed, unless `is_silent`.
    """

    def mentions(row: Row, words: Sequence[str]) -> bool:
        texts = (message.text.casefold() for message in listing.named_store(row.root).store.read(row.id))
        return any(all(contains(text, word) for word in words) for text in texts)

    names = resolver(rows, stores.workspace)
    matches = names.candidates(wanted, said=mentions) if wanted is not None else rows
    if len(matches) == 1:
        return matches[0], ""
    if not matches or not (sys.stdin.isatty() and sys.stdout.isatty()):
        if matches and not is_silent:
            _print_numbers(listing, matches)
        return names.only(matches, wanted or ""), ""  # raises, naming the matches or the nearest ones
    from cortext.faces.cortext.browse.screen import pick

    chosen = pick(
        placed(matches, listing.places()),
        lambda rows, text: Resolver(rows).candidates(text),
        stores.folder,
        stores.workspace,
        targets(),
    )
    return (None, "") if chosen is None else (chosen.row, chosen.tool)


def _print_numbers(listing: Listing, matches: Sequence[Row]) -> None:
    """Print the matches as a list to choose from by number."""
    for number, row in enumerate(placed(matches[:MOST_MATCHES], listing.places()), 1):
        where = f"{row.id} in {listing.labels.get(row.root, row.root)}"
        facts = " · ".join(filter(None, (row.shown_type, clock.ago(row.last_active), where, row.place)))
        print(terminal.line(f"{number}. {row.name} ({facts})"), file=sys.stderr)
    if len(matches) > MOST_MATCHES:
        print(f"… and {len(matches) - MOST_MATCHES} more", file=sys.stderr)
    last_command.remember_list(PROGRAM, [(row.root, row.id) for row in matches[:MOST_MATCHES]])
