"""The thread of a session, read only as far as needed, and the newest messages of it that fit into so many tokens."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from cortext.model import tokens
from cortext.model.message import SEAM, TOOL, TOOL_RESULT, Message, Part, characters_in
from cortext.model.session import Session
from cortext.model.threads import OpenBranch, Outline, branches, is_branched, replaced_in, seams, thread
from cortext.services.text.for_models import body, shorten
from cortext.store.base import Store
from cortext.store.capabilities import outlines_of

CHUNK = 256  # messages that are read at once,
CHUNK_CHARACTERS = 4 << 20  # or characters of them
KEPT_CHARACTERS = 16 << 20  # read messages are kept up to this size; beyond it, they are read again when needed
LARGE = 4  # a result that takes more than this part of the tokens is shortened if not everything fits
HEAD, TAIL = 8_000, 4_000  # characters that are kept of it


class History:
    """The current thread of a session (of its `branch`, if one is chosen); messages are addressed by their index in it.

    A session known to be linear is not scanned at all; for any other, an outline is read first. Each message is passed
    through `change`. Memory is bounded by the largest message, not by their number or their size in all.
    """

    def __init__(
        self, store: Store, session: Session, change: Callable[[Message], Message] = lambda message: message
    ) -> None:
        self._store, self._id, self._change = store, session.id, change
        self._outline: Sequence[Outline] | None = None
        self._newest: list[Message] = []  # the messages that are kept, the newest first
        self._room = KEPT_CHARACTERS
        self.branches: list[OpenBranch] = []  # if it was ever in several places
        self._seams: dict[int, str] = {}
        self.replaced = 0  # messages that the user edited later, and what answered them: not in the thread
        self._tokens_each = session.token_count // (session.message_count or 1)
        last = store.tail(self._id, 1) if session.is_linear else []
        if last and last[0].seq + 1 == session.message_count:  # else someone has appended since
            self._count = session.message_count
        else:
            outlines = [message for message in outlines_of(store, self._id) if not message.aside]
            head = ""
            if is_branched(outlines):
                self.branches = branches(outlines)
                head = self.branches[session.branch - 1].head if session.branch else ""
            self._outline = thread(outlines, head)
            self._seams = seams(self._outline)
            self.replaced = len(replaced_in(message for message in outlines if not message.partial))
            self._count = len(self._outline)

    def __len__(self) -> int:
        return self._count

    def messages(self, start: int = 0, end: int | None = None) -> list[Message]:
        """Return the messages from index `start` to `end`, complete; `read` yields them one by one."""
        return list(self.read(start, end))

    def read(self, start: int = 0, end: int | None = None) -> Iterator[Message]:
        """Yield the messages from index `start` to `end`, complete."""
        end = self._count if end is None else min(end, self._count)
        kept = self._count - len(self._newest)
        newer = self._newest[max(0, self._count - end) : max(0, self._count - max(start, kept))]
        yield from self._stored(start, min(end, kept))
        yield from reversed(newer)

    def expect(self, tokens: int, before: int) -> None:
        """Prefetch the newest messages that fit into `tokens`, and `before` older ones, in a single read."""
        if not self._tokens_each:
            return
        wanted = tokens * 11 // 10 // self._tokens_each + before
        wanted = min(wanted, KEPT_CHARACTERS // self._tokens_each)  # of large messages, few can be kept
        if wanted > len(self._newest):
            self._keep(self._chunk(len(self._newest), wanted - len(self._newest), KEPT_CHARACTERS))

    def backwards(self) -> Iterator[Message]:
        """Yield from the newest to the oldest; read in chunks on demand."""
        index, most = 0, CHUNK
        while index < self._count:
            if index < len(self._newest):
                yield self._newest[index]
                index += 1
                continue
            chunk = self._chunk(index, most, CHUNK_CHARACTERS)
            if not chunk:  # the file has become shorter
                return
            # What did not fit into this chunk was read in vain: large messages are read a few at a time.
            most = min(CHUNK, 2 * most) if len(chunk) == most else len(chunk)
            if index == len(self._newest) and self._room > 0:
                self._keep(chunk)
            else:
                yield from chunk
                index += len(chunk)

    def _keep(self, chunk: Sequence[Message]) -> None:
        self._newest += chunk
        self._room -= sum(map(characters_in, chunk))

    def _chunk(self, index: int, most: int, characters: int) -> list[Message]:
        """Return the messages before the newest `index` ones, newest first: what the limits allow, at least one."""
        end = self._count - index
        chunk: deque[Message] = deque()
        size = 0
        for message in self._stored(max(0, end - most), end):
            chunk.append(message)
            size += characters_in(message)
            while size > characters and len(chunk) > 1:
                size -= characters_in(chunk.popleft())
        return list(reversed(chunk))

    def _stored(self, start: int, end: int) -> Iterator[Message]:
        """Yield the messages between two indexes from the store."""
        if start >= end:
            return
        if self._outline is None:
            first, last, wanted = start, end - 1, None
        else:
            chosen = self._outline[start:end]
            first, last = chosen[0].seq, chosen[-1].seq
            wanted = {outline.seq for outline in chosen}
        for message in self._store.read(self._id, first):
            if message.seq > last:
                break
            if wanted is None or message.seq in wanted:
                yield self._change(self._with_seam(message))

    def _with_seam(self, message: Message) -> Message:
        """Return the message with what the model is told of the branch that it begins, if it begins one."""
        seam = self._seams.get(message.seq)
        return replace(message, extra={**(message.extra or {}), SEAM: seam}) if seam is not None else message


class Fitting(NamedTuple):
    """The messages that fit, oldest first, and how many results in them are shortened."""

    messages: list[Message]
    shortened: int


def newest_that_fit(history: History, budget: int) -> Fitting:
    """Return the newest messages that fit the tokens; never starting between a call and its result.

    If not all of them fit, large results are shortened: one build log must not take the place of the conversation.
    """
    fitting = _newest(history, budget, largest=None)
    return fitting if len(fitting.messages) == len(history) else _newest(history, budget, largest=budget // LARGE)


def size_of(message: Message) -> int:
    """Return the tokens of a message."""
    return message.tokens or tokens.estimate(body(message))


def _newest(history: History, budget: int, *, largest: int | None) -> Fitting:
    chosen: list[Message] = []
    cuts: list[int] = []
    used = 0
    for message in history.backwards():
        message, cut = (message, 0) if largest is None else _without_large_results(message, largest)
        used += size_of(message)
        if used > budget and chosen:
            break
        chosen.append(message)
        cuts.append(cut)
    if len(chosen) < len(history):
        while len(chosen) > 1 and chosen[-1].role == TOOL:
            chosen.pop()
    return Fitting(chosen[::-1], sum(cuts[: len(chosen)]))


def _without_large_results(message: Message, largest: int) -> tuple[Message, int]:
    """Return the message with the results that have more tokens shortened, and how many these are."""
    parts = [_shortened(part, largest) for part in message.parts or ()]
    cut = sum(new is not old for new, old in zip(parts, message.parts or (), strict=True))
    return (replace(message, parts=parts, tokens=None), cut) if cut else (message, 0)


def _shortened(part: Part, largest: int) -> Part:
    if part.type != TOOL_RESULT or tokens.estimate(part.output) <= max(largest, HEAD + TAIL):
        return part
    return replace(part, output=shorten(part.output, HEAD, TAIL))
