"""A long conversation in windows: a reader gets the messages around one place, and what is needed to reach the others.

Only the messages of the window are read. Which messages a branch consists of comes from outlines, read once for as long
as the conversation does not change.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from copy import copy
from itertools import islice
from typing import NamedTuple

from cortext.index.search.words import searchable
from cortext.model.message import TOOL, TOOL_CALL, USER, Message
from cortext.model.threads import Outline
from cortext.safety.secrets.masking import mask
from cortext.services.library.branches import Branch, Threads
from cortext.services.library.listing import Listing, Row
from cortext.services.text.message_masking import mask_message
from cortext.store.capabilities import outlines_of

TOGETHER = 40  # messages that a window may grow by, so that calls are shown with their results
BEGINNING = 400  # characters of a message in the timeline


class Window(NamedTuple):
    """Messages of a branch by their positions in it: from `start` up to `end`, of `total`."""

    messages: list[Message]
    start: int
    end: int
    total: int


class Ask(NamedTuple):
    """A message of the user, as an entry of the timeline; the text is the beginning of it, on one line and masked."""

    seq: int
    timestamp: str
    text: str


class Windows:
    """One branch of a conversation (`leaf` is its last message; -1: the current one), as it was when this was made."""

    def __init__(self, listing: Listing, row: Row, leaf: int = -1) -> None:
        self._listing, self._row = listing, row
        self._store, self._id = listing.named_store(row.root).store, row.id
        self._asks: list[Ask] | None = None
        outlines = list(outlines_of(self._store, self._id))
        self._roles, self._times = _noted(outlines)
        if row.straight and leaf < 0:
            self._path: Sequence[int] = range(outlines[0].seq, outlines[-1].seq + 1) if outlines else range(0)
            self.branches: list[Branch] = []
        else:
            threads = Threads(outlines)
            self._path = threads.path(leaf)
            self.branches = threads.branches()

    def grown(self, row: Row) -> Windows | None:
        """Return this branch with what was appended since, reading only that; None if it has to be read as a whole."""
        if not (isinstance(self._path, range) and self._path and row.straight):
            return None
        new = list(self._store.read(self._id, self._path.stop))
        path = range(self._path.start, self._path.stop + len(new))
        if len(path) != row.line_count or [each.seq for each in new] != list(path[self.total :]):
            return None
        made = copy(self)  # other readers still use this one
        made._row, made._path, made._asks = row, path, None
        roles, times = _noted(new)
        made._roles, made._times = self._roles | roles, self._times | times
        return made

    def own(self, seq: int, *, before: bool = False) -> int:
        """Return the number of the user's next message after this one, or the last before it; -1 if there is none."""
        at = bisect_left(self._path, seq)
        found = self._path[:at][::-1] if before else self._path[at:]
        return next((each for each in found if each != seq and self._roles.get(each) == USER), -1)

    @property
    def total(self) -> int:
        """How many messages the branch has."""
        return len(self._path)

    @property
    def leaf(self) -> int:
        """The number of the last message; -1 if there is none."""
        return self._path[-1] if self._path else -1

    def has(self, seq: int) -> bool:
        """Whether a message is in this branch."""
        at = bisect_left(self._path, seq)
        return at < self.total and self._path[at] == seq

    def position(self, seq: int) -> int:
        """Return the position of a message in this branch, or of the next one if it is not in it."""
        return min(bisect_left(self._path, seq), max(0, self.total - 1))

    def window(self, start: int, count: int) -> Window:
        """Return up to `count` messages from a position on, and a few more, so that no call loses its result."""
        start = max(0, min(start, self.total))
        end = min(self.total, start + count)
        least, most = max(0, start - TOGETHER), min(self.total, end + TOGETHER)
        while start > least and self._roles.get(self._path[start]) == TOOL:
            start -= 1
        while end < most and self._roles.get(self._path[end]) == TOOL:
            end += 1
        return Window(list(self._read(start, end)), start, end, self.total)

    def asks(self, most: int) -> list[Ask]:
        """Return the user's messages with their beginnings; of very many, a selection that covers all of it."""
        if self._asks is None:
            self._asks = self._selected(most)
        return self._asks

    def _selected(self, most: int) -> list[Ask]:
        own = [seq for seq in self._path if self._roles.get(seq) == USER]
        if len(own) > most:
            own = [own[index * len(own) // most] for index in range(most)]
        found = []
        for seq in own:
            message = self._listing.message(self._row, seq)
            text = _flat(mask(message.text).text) if message is not None else ""
            found.append(Ask(seq, self._times.get(seq, ""), text[:BEGINNING]))
        return found

    def search(self, text: str, most: int) -> list[Ask]:
        """Return the messages of this branch that contain a text, also in a call; letters match in either case.

        Each has the words around it. They are masked before they are cut: a piece of a secret would not be recognised.
        """
        wanted = text.casefold()
        inside = set(self._path)
        found: list[Ask] = []
        for message in self._listing.messages(self._row):
            if message.seq not in inside:
                continue
            if wanted in _flat(_said(message)).casefold():
                flat = _flat(_said(mask_message(message)[0]))
                start = max(0, flat.casefold().find(wanted) - 40)  # the beginning, if it is inside the secret
                shown = flat[start : start + len(text) + 120]
                found.append(Ask(message.seq, message.timestamp, f"…{shown}" if start else shown))
            if len(found) == most:
                break
        return found

    def _read(self, start: int, end: int) -> Iterator[Message]:
        """Yield the messages at these positions, a run of consecutive numbers at a time."""
        while start < end:
            run = start + 1
            while run < end and self._path[run] == self._path[run - 1] + 1:
                run += 1
            yield from islice(iter(self._store.read(self._id, self._path[start])), run - start)
            start = run


def _said(message: Message) -> str:
    """Return the text of a message, with its tool calls."""
    calls = any(part.type == TOOL_CALL for part in message.parts or ())
    return searchable(message) if calls else message.text


def _flat(text: str) -> str:
    """Return a text on one line."""
    return " ".join(text.split())


def _noted(messages: Sequence[Outline]) -> tuple[dict[int, str], dict[int, str]]:
    """Return which messages are the user's or of a tool, and the times of the user's, by their numbers."""
    said = [each for each in messages if each.role in (USER, TOOL) and not each.aside]
    return {each.seq: each.role for each in said}, {each.seq: each.timestamp for each in said if each.role == USER}
