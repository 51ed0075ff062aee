"""The view: the messages of a conversation that the model is sent, bounded in tokens. The log itself never changes.

The view is a pure function of the messages, their order and the limit: every message goes through `add`, both when it
is new and when it is read from the log again. A resumed conversation therefore has exactly the view it had before.

    view = View(limit=100_000)
    view.load(store.read(session_id))        # or view.add(message) as they are stored
    request = Request(messages=view.messages, system=view.system)

What the user does to the view is recorded in the log as an aside (see `marker`): `add` applies it again, and other
readers ignore it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from cortext.model import tokens
from cortext.model.message import ASSISTANT, SYSTEM, TOOL, USER, Message
from cortext.model.threads import thread
from cortext.safety.framing import UNANSWERED as UNANSWERED
from cortext.services.text.for_models import disarm

LIMIT = 100_000
FIRST, LAST = 2, 10  # turns that stay when the view is trimmed
WARN_AT = (90, 80)  # per cent of the limit

CLEAR = "clear"  # a marker: the view is empty from here on
AGENT = "agent"  # a marker: another agent answers from here on
_KEY = "view"  # in the `extra` of a marker: its kind
REMARK = "remark"  # in the `extra` of a user message that needs no answer
STOP = "stop"  # in the `extra` of a reply that was cut off: the reason


class Trim(msgspec.Struct, frozen=True):
    """How much of the log was trimmed from the view."""

    turns: int = 0
    tokens: int = 0


class View:
    """The messages of the next request, updated as messages are added."""

    def __init__(self, limit: int = LIMIT, *, first: int = FIRST, last: int = LAST, system: str = "") -> None:
        self.limit, self.first, self.last = limit, first, last
        self._shown: list[Message] = []
        self._size = 0
        self._dropped = Trim()
        self._warned_at = 0  # per cent
        self._notices: list[str] = []
        self._system, self._system_size = "", 0
        self.system = system

    @property
    def system(self) -> str:
        """The system prompt. It counts towards the limit and is never trimmed."""
        return self._system

    @system.setter
    def system(self, text: str) -> None:
        self._system, self._system_size = text, tokens.estimate(text)

    def load(self, messages: Iterable[Message], before: str = "") -> None:
        """Replace the view by that of a log, without notices.

        `before` is a text of ours that stands in for earlier messages, and is sent as it is.
        """
        self.clear()
        if before:
            self._append(Message(role=USER, content=before))
        for message in replay(messages):
            self.add(message)
        self._notices.clear()

    def add(self, message: Message) -> None:
        """Add the next message of the log. Partial replies and asides are left out; a marker is applied.

        A message that replaces an earlier one removes that one, with its answer.
        """
        if marker_kind(message) == CLEAR:
            self.clear()
        if message.aside or message.partial:
            return
        if message.replaces:
            self._remove(message.replaces)
        self._append(disarm(message))  # a message must not be able to imitate the framing that we add

    def _append(self, message: Message) -> None:
        self._shown.append(message)
        self._size += size(message)
        if self.tokens > self.limit:
            self._trim()
        self._warn_if_full()

    def _remove(self, message_id: str) -> None:
        """Remove a message of the user and what answers it, up to the next message of the user."""
        shown = self._shown
        first = next((index for index, message in enumerate(shown) if message.id and message.id == message_id), None)
        if first is None:
            return
        after = first + 1
        while after < len(shown) and shown[after].role in (ASSISTANT, TOOL):
            after += 1
        self._size -= sum(map(size, shown[first:after]))
        del shown[first:after]

    def clear(self) -> None:
        """Empty the view. The caller appends `marker(CLEAR, …)` to the log, so that it stays empty after a resume."""
        self._shown, self._size, self._dropped, self._warned_at = [], 0, Trim(), 0

    @property
    def messages(self) -> list[Message]:
        """The messages of the next request; one of ours says what was trimmed."""
        head = self._head(self._shown) if self._dropped.turns else 0
        notice = [self._trim_notice()] if self._dropped.turns else []
        return list(_with_unanswered_notices([*self._shown[:head], *notice, *self._shown[head:]]))

    @property
    def tokens(self) -> int:
        """The size of the view, including the system prompt."""
        return self._system_size + self._size

    @property
    def percent(self) -> int:
        """The size of the view in per cent of the limit."""
        return 100 * self.tokens // max(1, self.limit)

    @property
    def turns(self) -> int:
        """The number of messages of the log in the view."""
        return len(self._shown)

    @property
    def dropped(self) -> Trim:
        """What was trimmed since the view was last cleared."""
        return self._dropped

    @property
    def awaits_answer(self) -> bool:
        """Whether the last message is not the model's, so that there is something to answer."""
        return bool(self._shown) and self._shown[-1].role in (USER, TOOL)

    @property
    def cut_reason(self) -> str:
        """Why the last answer was cut off ("length", "filtered"); empty if it is complete."""
        last = self._shown[-1] if self._shown else None
        return cut_reason_of(last) if last is not None and last.role == ASSISTANT else ""

    def take_notices(self) -> list[str]:
        """Return the notices for the user that were not returned yet: the view is nearly full, or was trimmed."""
        notices, self._notices = self._notices, []
        return notices

    def _head(self, shown: list[Message]) -> int:
        """Return where the kept beginning ends: after the first turns and the system messages among and after them."""
        index = turns = 0
        while index < len(shown) and (turns < self.first or shown[index].role == SYSTEM):
            turns += shown[index].role != SYSTEM
            index += 1
        return index

    def _trim(self) -> None:
        """Drop older turns. The first, the last and the system messages stay, if they fit."""
        shown = self._shown
        head = self._head(shown)
        tail = max(head, len(shown) - self.last)
        kept = [*shown[:head], *(m for m in shown[head:tail] if m.role == SYSTEM), *shown[tail:]]
        available = self.limit - self._system_size
        total = sum(map(size, kept))
        index = self._head(kept)
        while total > available and len(kept) > 1:
            # First what is between the beginning and the end, then the beginning. The newest message always stays.
            drop = index if index < len(kept) - 1 else 0
            total -= size(kept.pop(drop))
            index = min(index, len(kept) - 1)
        count = len(shown) - len(kept)
        if count:
            self._dropped = Trim(self._dropped.turns + count, self._dropped.tokens + self._size - total)
            self._shown, self._size, self._warned_at = kept, total, 0
            self._notices = [
                f"{count} older turns were dropped from the context (the file keeps them); it is {self.percent} % full"
            ]

    def _trim_notice(self) -> Message:
        dropped = self._dropped
        return Message(
            role=SYSTEM,
            content=f"[{dropped.turns} earlier turns (about {dropped.tokens:,} tokens) are not shown here. "
            "They are kept in the session's file.]",
        )

    def _warn_if_full(self) -> None:
        for threshold in WARN_AT:
            if self.percent >= threshold > self._warned_at:
                self._warned_at = threshold
                self._notices.append(f"the context is {self.percent} % full ({self.tokens:,} of {self.limit:,} tokens)")
                return


def size(message: Message) -> int:
    """Return the tokens of one message in a request.

    A recorded count that is far from the estimate is bounded: a provider's may include hidden reasoning, and another
    tool's the whole request, or nothing at all.
    """
    estimate = tokens.estimate(message.text)
    return estimate if message.tokens is None else max(estimate // 2, min(message.tokens, 2 * estimate + 16))


def cut_reason_of(message: Message) -> str:
    """Return why a reply was cut off; empty if it is complete."""
    reason = message.extra.get(STOP) if message.extra else None
    return reason if isinstance(reason, str) else ""


def _with_unanswered_notices(shown: Iterable[Message]) -> Iterator[Message]:
    """Yield the messages, with a notice after each user message that is followed by another instead of an answer."""
    before: Message | None = None
    for message in shown:
        # A summary has no id and needs no answer.
        waited = before is not None and before.role in (USER, TOOL) and before.id and REMARK not in (before.extra or {})
        if waited and message.role == USER:
            yield Message(role=SYSTEM, content=UNANSWERED)
        yield message
        before = message


def marker(kind: str, text: str, **more: str) -> Message:
    """Return the message that records in the log what the user did to the view; people see the text in brackets."""
    return Message(role=SYSTEM, content=f"[{text}]", tokens=0, aside=True, extra={_KEY: kind, **more})


def marker_kind(message: Message) -> str:
    """Return the kind of a marker; empty for every other message."""
    kind = message.extra.get(_KEY) if message.aside and message.extra else None
    return kind if isinstance(kind, str) else ""


def replay(messages: Iterable[Message]) -> Iterator[Message]:
    """Yield the messages of the current branch, with the markers in order among them."""
    known = list(messages)
    if not any(message.parent for message in known):
        yield from known
        return
    branch = thread(known)
    yield from sorted([*branch, *filter(marker_kind, known)], key=lambda message: message.seq)
