"""The conversations that were forked from each other, as a tree to switch between.

A fork names what it was forked from; the forks of a conversation are those that name it, in the same store.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from cortext.services.library.listing import Listing, Row

MOST = 60  # conversations of a tree; the first ones are those before this one, then its own forks
ASKED = 500  # forks that a server is asked for, the newest

ForksOf = Callable[[Sequence[str]], list[Row]]


class Fork(NamedTuple):
    """A conversation and those that were forked from it."""

    row: Row
    forks: list[Fork]


def family(listing: Listing, row: Row) -> Fork | None:
    """Return the tree that a conversation is in, from the first one on; None if it is neither a fork nor has any."""
    before = _before(listing, row)
    kept = {each.id: each for each in [*reversed(before), row]}
    forks_of = _lookup(listing, row.root)
    for begin in ([row], before):
        _add_forks(forks_of, kept, begin)
    if len(kept) < 2:
        return None
    tree = {name: Fork(each, []) for name, each in kept.items()}
    top = tree[before[-1].id if before else row.id]
    for fork in sorted(tree.values(), key=lambda fork: (fork.row.created_at, fork.row.id)):
        if fork is not top:
            tree[fork.row.parent].forks.append(fork)
    return top


def _before(listing: Listing, row: Row) -> list[Row]:
    """Return what a conversation was forked from, what that was forked from, and so on, as far as it is there."""
    found: list[Row] = []
    seen = {row.id}
    while row.parent and row.parent not in seen and len(found) < MOST - 1:  # a file may say anything, even a circle
        key = (row.root, row.parent)
        known = listing.on_server(*key) if row.root in listing.servers else listing.index.named([key]).get(key)
        if known is None:
            break
        seen.add(known.id)
        found.append(row := known)
    return found


def _add_forks(forks_of: ForksOf, kept: dict[str, Row], begin: Sequence[Row]) -> None:
    """Add the forks of these conversations, and theirs, until there are enough."""
    level = begin
    while level and len(kept) < MOST:
        level = [each for each in forks_of([row.id for row in level]) if each.id not in kept][: MOST - len(kept)]
        kept.update((each.id, each) for each in level)


def _lookup(listing: Listing, root: str) -> ForksOf:
    """Return the function that finds the forks of some conversations in this store, the oldest first."""
    server = listing.servers.get(root)
    if server is None:
        return lambda names: listing.index.forks(root, names)
    # A server cannot look for what a session was forked from, but the name of a fork says that it is one.
    named = listing.from_server(server, [("named", "fork")], ASKED)
    named.sort(key=lambda row: (row.created_at, row.id))
    return lambda names: [row for row in named if row.parent in names]
