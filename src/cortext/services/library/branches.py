"""The branches of a conversation: the threads that end in each of its last messages, and what each consists of.

A conversation that never went back has one. Only outlines are read, so the cost does not depend on the texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from cortext.model.message import BEGINNING, Outline


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
    """The threads of one conversation, by the numbers of their messages. The current one ends in the last message."""

    def __init__(self, outlines: Sequence[Outline]) -> None:
        self._outlines = outlines
        self._parents: list[int] = []  # of each message, by index; -1 if it follows none
        self._asides: dict[int, list[int]] = {}  # the messages beside the thread, by the index of the one before
        index_of: dict[str, int] = {}
        before = -1
        for index, message in enumerate(outlines):
            if message.aside:
                self._asides.setdefault(before, []).append(index)
                self._parents.append(-1)
                continue
            parent = before
            if message.parent == BEGINNING:
                parent = -1
            elif message.parent:
                # A parent is always earlier: a file that says otherwise must not send us into a loop.
                parent = index_of.get(message.parent, before)
            self._parents.append(parent)
            index_of[message.id] = before = index
        self._last = before

    def branches(self) -> list[Branch]:
        """Return every branch, the current one last."""
        followed = set(self._parents)
        leaves = [i for i, message in enumerate(self._outlines) if not message.aside and i not in followed]
        taken: dict[int, int] = {}  # the leaf of the branch that each message is of
        found = []
        for leaf in leaves:
            index, own = leaf, 0
            message = self._outlines[leaf]
            while index >= 0 and index not in taken:
                taken[index] = message.seq
                own += 1
                index = self._parents[index]
            after = self._outlines[index].seq if index >= 0 else -1
            found.append(Branch(message.seq, after, own, message.timestamp, taken.get(index, -1)))
        return found

    def path(self, leaf: int = -1) -> list[int]:
        """Return the numbers of the messages of the branch that ends in `leaf` (default: the current one), in order.

        Interrupted replies are included, and messages beside the thread follow the one they were beside.
        """
        numbers = {message.seq: index for index, message in enumerate(self._outlines) if not message.aside}
        index = numbers.get(leaf, self._last) if leaf >= 0 else self._last
        path = []
        while index >= 0:
            path.append(index)
            index = self._parents[index]
        path.append(-1)  # what was beside the thread before its first message
        together = [each for index in reversed(path) for each in ([index, *self._asides.get(index, ())])]
        return [self._outlines[index].seq for index in together if index >= 0]
