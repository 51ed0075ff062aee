"""The branches of a conversation: the threads that end in each of its last messages, and what each consists of.

A conversation that never went back has one. Only outlines are read, so the cost does not depend on the texts. And the
conversations that were forked from each other, as a tree: a fork names what it was forked from, in the same store.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from cortext.model.session import Session
from cortext.model.threads import OpenBranch, Outline, branches, followed, seams, thread, up_to
from cortext.services.library.listing import Listing, Row
from cortext.services.library.sources import ForksOf
from cortext.store.base import Store
from cortext.store.capabilities import outlines_of

MOST = 60  # conversations of a tree; the first ones are those before this one, then its own forks


def open_branches(store: Store, session: Session) -> tuple[list[OpenBranch], dict[int, str]]:
    """Return the branches in which a session goes on, none if it has only one; and its seams (see `seams`)."""
    outlines = [] if session.is_linear else list(outlines_of(store, session.id))
    return branches(outlines) if session.branch_count > 1 else [], seams(thread(outlines))


class Branch(NamedTuple):
    """A thread from the beginning to `leaf`; `after` is the last message it shares with an earlier one (-1: none).

    `parent` is the leaf of the branch that this message is of (-1: none).
    """

    leaf: int
    after: int
    messages: int  # its own, after that one
    timestamp: str  # of its last message
    parent: int = -1


class Threads:
    """The threads of one conversation, by the numbers of their messages. The current one is `model.threads.thread`."""

    def __init__(self, outlines: Sequence[Outline]) -> None:
        self._outlines = outlines
        self._follows: list[list[int]] = [[] for _ in outlines]  # the indexes of the messages that each one follows
        self._asides: dict[int, list[int]] = {}  # the messages beside the thread, by the index of the one before
        before = -1
        places: list[int] = []  # the indexes of the messages that are not asides
        for index, message in enumerate(outlines):
            if message.aside:
                self._asides.setdefault(before, []).append(index)
            else:
                places.append(before := index)
        follows, heads = followed([outlines[index] for index in places])
        for place, earlier in zip(places, follows, strict=True):
            self._follows[place] = [places[each] for each in earlier]
        self._heads = [places[each] for each in heads]

    def branches(self) -> list[Branch]:
        """Return every branch, the current one last."""
        inner = {each for earlier in self._follows for each in earlier}
        leaves = [i for i, message in enumerate(self._outlines) if not message.aside and i not in inner]
        taken: dict[int, int] = {}  # the leaf of the branch that each message is of
        found = []
        for leaf in leaves:
            index, own = leaf, 0
            message = self._outlines[leaf]
            while index >= 0 and index not in taken:
                taken[index] = message.seq
                own += 1
                index = next(iter(self._follows[index]), -1)
            after = self._outlines[index].seq if index >= 0 else -1
            found.append(Branch(message.seq, after, own, message.timestamp, taken.get(index, -1)))
        return found

    def path(self, leaf: int = -1) -> list[int]:
        """Return the numbers of the messages of the branch that ends in `leaf`, in order; without one, of the thread.

        Interrupted replies are included, and messages beside the thread follow the one they were beside.
        """
        numbers = {message.seq: index for index, message in enumerate(self._outlines) if not message.aside}
        heads = [numbers[leaf]] if leaf in numbers else self._heads
        path = [-1, *sorted(up_to(self._follows, *heads))]  # -1: what was beside the thread before its first message
        together = [each for index in path for each in ([index, *self._asides.get(index, ())])]
        return [self._outlines[index].seq for index in together if index >= 0]


class Fork(NamedTuple):
    """A conversation and those that were forked from it."""

    row: Row
    forks: list[Fork]


def family(listing: Listing, row: Row) -> Fork | None:
    """Return the tree that a conversation is in, from the first one on; None if it is neither a fork nor has any."""
    before = _before(listing, row)
    kept = {each.id: each for each in [*reversed(before), row]}
    forks_of = listing.forks_of(row.root)
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
        parent = listing.row(row.root, row.parent)
        if parent is None:
            break
        seen.add(parent.id)
        found.append(row := parent)
    return found


def _add_forks(forks_of: ForksOf, kept: dict[str, Row], begin: Sequence[Row]) -> None:
    """Add the forks of these conversations, and theirs, until there are enough."""
    level = begin
    while level and len(kept) < MOST:
        level = [each for each in forks_of([row.id for row in level]) if each.id not in kept][: MOST - len(kept)]
        kept.update((each.id, each) for each in level)
