"""The thread of a session, read only as far as somebody looks: a packet needs the end of it, and little else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from cortext.model.message import Message, Outline, thread
from cortext.model.session import Session
from cortext.store.base import Store
from cortext.store.capabilities import Outlines

CHUNK = 256


class History:
    """The talk as it stands, its messages by their place in the thread.

    A session that is known to be straight is not looked through at all; of any other an outline is read first.
    """

    def __init__(self, store: Store, session: Session) -> None:
        self._store, self._id = store, session.id
        self._outline: Sequence[Outline] | None = None
        self._newest: list[Message] = []  # the newest first, as far as they were read
        self._tokens_each = session.token_count // (session.message_count or 1)
        last = store.tail(self._id, 1) if session.straight else []
        if last and last[0].seq + 1 == session.message_count:  # else somebody wrote since it was looked at
            self._count = session.message_count
        else:
            outline = store.outline(self._id) if isinstance(store, Outlines) else store.read(self._id)
            self._outline = thread(outline)
            self._count = len(self._outline)

    def __len__(self) -> int:
        return self._count

    def messages(self, start: int = 0, end: int | None = None) -> list[Message]:
        """The messages from one place to another, whole."""
        end = self._count if end is None else min(end, self._count)
        kept = self._count - len(self._newest)
        if end <= kept:
            return self._read(start, end)
        newer = self._newest[self._count - end : self._count - max(start, kept)]
        return [*self._read(start, kept), *reversed(newer)]

    def expect(self, tokens: int, before: int) -> None:
        """Somebody will look at the newest that fit so many tokens, and so many before them: read them in one go."""
        if self._tokens_each:
            self._keep(tokens * 11 // 10 // self._tokens_each + before)

    def backwards(self) -> Iterator[Message]:
        """From the newest to the oldest, read in chunks as they are asked for, and kept."""
        place = 0
        while place < self._count:
            if place == len(self._newest):
                self._keep(place + CHUNK)
            yield self._newest[place]
            place += 1

    def _keep(self, count: int) -> None:
        """Read so many of the newest, as far as they were not read already."""
        kept = self._count - len(self._newest)
        self._newest += reversed(self._read(max(0, self._count - count), kept))

    def _read(self, start: int, end: int) -> list[Message]:
        if start >= end:
            return []
        if self._outline is None:
            first, last, wanted = start, end - 1, None
        else:
            chosen = self._outline[start:end]
            first, last = chosen[0].seq, chosen[-1].seq
            wanted = {outline.seq for outline in chosen}
        found = []
        for message in self._store.read(self._id, first):
            if message.seq > last:
                break
            if wanted is None or message.seq in wanted:
                found.append(message)
        return found
