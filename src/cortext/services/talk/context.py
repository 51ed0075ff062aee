"""What the model sees of a conversation: a view of its log, bounded in tokens. The log itself never changes.

The view is a pure function of the messages in their order (and of the limit): every message goes through `add`,
when it is said and when it is read from the file again. So a resumed talk sees exactly what it saw before.

    view = View(limit=100_000)
    view.load(store.read(session_id))        # or view.add(message) as they are stored
    request = Request(messages=view.messages, system=view.system)

What the user does to the view is in the log too, as an aside that `mark` makes: readers that know nothing of it
pass over it, and `add` does it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from cortext.model import tokens
from cortext.model.message import ASSISTANT, SYSTEM, TOOL, USER, Message, thread
from cortext.safety.framing import UNANSWERED as UNANSWERED
from cortext.services.text.masking import disarm

LIMIT = 100_000
FIRST, LAST = 2, 10  # turns that stay when the others leave
WARN_AT = (90, 80)  # per cent of the limit

CLEAR = "clear"  # the view begins anew after this mark
AGENT = "agent"  # another agent answers from here on
_KEY = "view"  # in a mark's `extra`
REMARK = "remark"  # in the `extra` of a message of the user's that wants no answer
STOP = "stop"  # in the `extra` of a reply that the model did not end by itself: why


class Left(msgspec.Struct, frozen=True):
    """What is in the log and no longer in the view."""

    turns: int = 0
    tokens: int = 0


class View:
    """The messages that the model is sent next, kept up to date as messages are added."""

    def __init__(self, limit: int = LIMIT, *, first: int = FIRST, last: int = LAST, system: str = "") -> None:
        self.limit, self.first, self.last = limit, first, last
        self._shown: list[Message] = []
        self._size = 0
        self._left = Left()
        self._told = 0  # the highest per cent that was warned of
        self._news: list[str] = []
        self._system, self._system_size = "", 0
        self.system = system

    @property
    def system(self) -> str:
        """The prompt that stands before everything; it counts, and never leaves."""
        return self._system

    @system.setter
    def system(self, text: str) -> None:
        self._system, self._system_size = text, tokens.estimate(text)

    def load(self, messages: Iterable[Message], before: str = "") -> None:
        """Begin with the messages of a log, as if each had just been added; nothing is to be told about them.

        `before` are words of ours that stand in for the messages before them, and are shown as they are.
        """
        self.clear()
        if before:
            self._take(Message(role=USER, content=before))
        for message in replay(messages):
            self.add(message)
        self._news.clear()

    def add(self, message: Message) -> None:
        """One more message of the log. Cut replies and asides stay out; a mark does what it says."""
        kind = mark_of(message)
        if kind == CLEAR:
            self.clear()
        if message.aside or message.partial:
            return
        self._take(disarm(message))  # nothing that was said can pass for a word of ours between the messages

    def _take(self, message: Message) -> None:
        self._shown.append(message)
        self._size += size(message)
        if self.tokens > self.limit:
            self._trim()
        self._watch()

    def clear(self) -> None:
        """A fresh view. The caller puts `mark(CLEAR)` into the log, so that it stays so."""
        self._shown, self._size, self._left, self._told = [], 0, Left(), 0

    @property
    def messages(self) -> list[Message]:
        """What the model is sent: what stayed, with a word in the place of what left."""
        head = self._head(self._shown) if self._left.turns else 0
        marker = [self._marker()] if self._left.turns else []
        return list(_with_gaps([*self._shown[:head], *marker, *self._shown[head:]]))

    @property
    def tokens(self) -> int:
        """How large the view is, the system prompt included."""
        return self._system_size + self._size

    @property
    def percent(self) -> int:
        """How full it is."""
        return 100 * self.tokens // max(1, self.limit)

    @property
    def turns(self) -> int:
        """How many messages of the log it holds."""
        return len(self._shown)

    @property
    def left(self) -> Left:
        """What left it since it was last cleared."""
        return self._left

    @property
    def waits(self) -> bool:
        """Whether the last words are not the model's: there is something to answer."""
        return bool(self._shown) and self._shown[-1].role in (USER, TOOL)

    @property
    def cut(self) -> str:
        """Why the last answer ended before its end ("length", "filtered"); empty where it is whole."""
        last = self._shown[-1] if self._shown else None
        return cut_by(last) if last is not None and last.role == ASSISTANT else ""

    def news(self) -> list[str]:
        """What the user should be told, once: it gets full, or turns left it."""
        told, self._news = self._news, []
        return told

    def _head(self, shown: list[Message]) -> int:
        """Where the kept beginning ends: after the first turns, and the system turns among and behind them."""
        place = turns = 0
        while place < len(shown) and (turns < self.first or shown[place].role == SYSTEM):
            turns += shown[place].role != SYSTEM
            place += 1
        return place

    def _trim(self) -> None:
        """Older turns leave. The first, the last and the system's stay; if even these are too much, the oldest go."""
        shown = self._shown
        head = self._head(shown)
        border = max(head, len(shown) - self.last)
        kept = [*shown[:head], *(m for m in shown[head:border] if m.role == SYSTEM), *shown[border:]]
        room = self.limit - self._system_size
        total = sum(map(size, kept))
        place = self._head(kept)
        while total > room and len(kept) > 1:
            # Between the beginning and the end first; then the beginning itself. The newest words always stay.
            going = place if place < len(kept) - 1 else 0
            total -= size(kept.pop(going))
            place = min(place, len(kept) - 1)
        gone = len(shown) - len(kept)
        if gone:
            self._left = Left(self._left.turns + gone, self._left.tokens + self._size - total)
            self._shown, self._size, self._told = kept, total, 0
            self._news = [f"{gone} older turns left the view (the file keeps them); it is {self.percent} % full now"]

    def _marker(self) -> Message:
        gone = self._left
        return Message(
            role=SYSTEM,
            content=f"[{gone.turns} earlier turns (about {gone.tokens:,} tokens) are not shown here. "
            "They are kept in the session's file.]",
        )

    def _watch(self) -> None:
        for border in WARN_AT:
            if self.percent >= border > self._told:
                self._told = border
                self._news.append(f"the context is {self.percent} % full ({self.tokens:,} of {self.limit:,} tokens)")
                return


def size(message: Message) -> int:
    """The tokens of one message as the model is sent it.

    A count that is far from the text is not believed: a provider's may hold what it thought and did not say, another
    program's the whole request, or nothing at all.
    """
    guess = tokens.estimate(message.text)
    return guess if message.tokens is None else max(guess // 2, min(message.tokens, 2 * guess + 16))


def cut_by(message: Message) -> str:
    """Why a reply ended before its end; empty for a whole one."""
    reason = message.extra.get(STOP) if message.extra else None
    return reason if isinstance(reason, str) else ""


def _with_gaps(shown: Iterable[Message]) -> Iterator[Message]:
    """The messages, with a word after each of the user's that was left without an answer and went on to another."""
    before: Message | None = None
    for message in shown:
        # A summary has no id and wants no answer.
        waited = before is not None and before.role in (USER, TOOL) and before.id and REMARK not in (before.extra or {})
        if waited and message.role == USER:
            yield Message(role=SYSTEM, content=UNANSWERED)
        yield message
        before = message


def mark(kind: str, text: str, **more: str) -> Message:
    """A line for the log that says what the user did to the view; for people it is a remark in brackets."""
    return Message(role=SYSTEM, content=f"[{text}]", tokens=0, aside=True, extra={_KEY: kind, **more})


def mark_of(message: Message) -> str:
    """What a mark says; empty for every other message."""
    kind = message.extra.get(_KEY) if message.aside and message.extra else None
    return kind if isinstance(kind, str) else ""


def replay(messages: Iterable[Message]) -> Iterator[Message]:
    """The talk as it stands, with the marks at their places."""
    known = list(messages)
    if not any(message.parent for message in known):
        yield from known
        return
    talk = thread(known)
    yield from sorted([*talk, *filter(mark_of, known)], key=lambda message: message.seq)
