"""The thread of a session, read only as far as needed: a packet needs its end and little else."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from cortext.model.message import Message, Outline, thread
from cortext.model.session import Session
from cortext.store.base import Store
from cortext.store.capabilities import Outlines

CHUNK = 256


class History:
    """The current thread of a session; messages are addressed by their index in it.

    A session known to be linear is not scanned at all; for any other, an outline is read first. Each message is passed
    through `change`.
    """

    def __init__(
        self, store: Store, session: Session, change: Callable[[Message], Message] = lambda message: message
    ) -> None:
        self._store, self._id, self._change = store, session.id, change
        self._outline: Sequence[Outline] | None = None
        self._newest: list[Message] = []  # the messages read so far, the newest first
        self._tokens_each = session.token_count // (session.message_count or 1)
        last = store.tail(self._id, 1) if session.is_linear else []
        if last and last[0].seq + 1 == session.message_count:  # else someone has appended since
            self._count = session.message_count
        else:
            outline = store.outline(self._id) if isinstance(store, Outlines) else store.read(self._id)
            self._outline = thread(outline)
            self._count = len(self._outline)

    def __len__(self) -> int:
        return self._count

    def messages(self, start: int = 0, end: int | None = None) -> list[Message]:
        """Return the messages from index `start` to `end`, complete."""
        end = self._count if end is None else min(end, self._count)
        kept = self._count - len(self._newest)
        if end <= kept:
            return self._read(start, end)
        newer = self._newest[self._count - end : self._count - max(start, kept)]
        return [*self._read(start, kept), *reversed(newer)]

    def expect(self, tokens: int, before: int) -> None:
        """Prefetch the newest messages that fit into `tokens`, and `before` older ones, in a single read."""
        if self._tokens_each:
            self._keep(tokens * 11 // 10 // self._tokens_each + before)

    def backwards(self) -> Iterator[Message]:
        """Yield from the newest to the oldest; read in chunks on demand and kept."""
        index = 0
        while index < self._count:
            if index == len(self._newest):
                self._keep(index + CHUNK)
            yield self._newest[index]
            index += 1

    def _keep(self, count: int) -> None:
        """Read the newest `count` messages, as far as they have not been read yet."""
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
                found.append(self._change(message))
        return found
