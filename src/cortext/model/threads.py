"""What follows what in a conversation: its current thread, the branches in which it goes on, and what was replaced.

A conversation has branches after it was continued in two places at once: machines, or tools.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol, TypeVar

from cortext.model import clock
from cortext.model.message import ASSISTANT, BEGINNING, TOOL
from cortext.model.wording import amount


class Outline(Protocol):
    """A message without its text: enough to know the thread and what would fit."""

    @property
    def id(self) -> str: ...
    @property
    def seq(self) -> int: ...
    @property
    def role(self) -> str: ...
    @property
    def timestamp(self) -> str: ...
    @property
    def tokens(self) -> int | None: ...
    @property
    def parent(self) -> str: ...
    @property
    def partial(self) -> bool: ...
    @property
    def aside(self) -> bool: ...
    @property
    def replaces(self) -> str: ...
    @property
    def forked_from(self) -> str: ...
    @property
    def forked_in(self) -> str: ...
    @property
    def joins(self) -> bool: ...


Placed = TypeVar("Placed", bound=Outline)


def thread(messages: Iterable[Placed], head: str = "") -> list[Placed]:
    """Return the current thread: from the last message back by `parent`, without interrupted replies and asides.

    Branches in which the conversation goes on are all in it, each in its order, unless `head` names the last message of
    the one that is wanted. A message that the user edited later is left out with what answered it: the edited one
    stands where it was sent.
    """
    kept = [message for message in messages if not message.aside]
    if is_branched(kept):
        follows, heads = followed(kept)
        wanted = up_to(follows, *([index for index, each in enumerate(kept) if head == each.id] or heads))
        kept = [message for index, message in enumerate(kept) if index in wanted]
    elif any(message.parent for message in kept):
        index_by_id = {message.id: index for index, message in enumerate(kept)}
        path: list[Placed] = []
        index = len(kept) - 1
        while index >= 0:
            message = kept[index]
            path.append(message)
            # A parent is always earlier: a file that says otherwise must not send us into a loop.
            before = index_by_id.get(message.parent, index - 1) if message.parent else index - 1
            index = -1 if message.parent == BEGINNING else before if before < index else index - 1
        kept = path[::-1]
    kept = [message for message in kept if not message.partial]
    replaced = replaced_in(kept)
    return [message for message in kept if message.id not in replaced]


def is_branched(messages: Iterable[Outline]) -> bool:
    """Whether the conversation ever went on in several places at once."""
    return any(message.forked_from or message.joins for message in messages)


def followed(messages: Sequence[Outline]) -> tuple[list[list[int]], list[int]]:
    """Return which messages each one follows, and the last message of each branch that goes on, by their indexes.

    The messages are without asides.
    """
    index_of: dict[str, int] = {}
    follows: list[list[int]] = []
    heads: list[int] = []
    for index, message in enumerate(messages):
        tip = index_of.get(message.forked_from, index - 1)  # never a later one: a file may say anything
        before = -1 if message.parent == BEGINNING else index_of.get(message.parent, tip)
        follows.append([*heads] if message.joins else [before] if before >= 0 else [])
        if message.joins:
            heads = [index]
        elif tip in heads:
            heads[heads.index(tip)] = index
        else:
            heads.append(index)
        index_of[message.id] = index
    return follows, heads


def up_to(follows: Sequence[Sequence[int]], *heads: int) -> set[int]:
    """Return these messages and all that they follow, by their indexes."""
    found: set[int] = set()
    todo = [*heads]
    while todo:
        index = todo.pop()
        if index not in found:
            found.add(index)
            todo += follows[index]
    return found


def replaced_in(messages: Iterable[Outline]) -> set[str]:
    """Return the ids of the messages that later ones replace, and of those that answered them."""
    messages = list(messages)
    targets = {message.replaces for message in messages} - {""}
    replaced: set[str] = set()
    if targets:
        is_replaced = False
        for message in messages:
            if message.role not in (ASSISTANT, TOOL):
                is_replaced = message.id in targets
            if is_replaced and message.id:
                replaced.add(message.id)
    return replaced


class OpenBranch(NamedTuple):
    """One of the branches in which a conversation goes on, by the numbers of its messages."""

    head: str  # the id of its last message
    after: int  # the last message that all of them share; -1 if there is none
    own: list[int]  # those that not all of them share
    began: str  # when its first own message was said, and the last one
    ended: str
    tool: str  # where it was said, if that is known

    @property
    def words(self) -> str:
        """What a person or a model is told about it."""
        after = f" after message {self.after}" if self.after >= 0 else ""
        where = f", in {self.tool}" if self.tool else ""
        times = " to ".join(dict.fromkeys(clock.short(time) for time in (self.began, self.ended) if time))
        return f"{amount(len(self.own), 'message')}{after}{where}{f', {times}' if times else ''}"


def branches(messages: Iterable[Outline]) -> list[OpenBranch]:
    """Return the branches in which a conversation goes on, in the order in which they began; usually one.

    What a user left behind in the same tool (`parent`) is not one of them. Everything that shows, counts, chooses or
    joins branches asks this function.
    """
    kept = [message for message in messages if not message.aside]
    follows, heads = followed(kept)
    ways = [up_to(follows, head) for head in heads]
    shared = set.intersection(*ways) if ways else set()
    found = []
    for head, way in zip(heads, ways, strict=True):
        own = [kept[index] for index in sorted(way - shared if len(ways) > 1 else way)]
        after = kept[max(shared)].seq if shared and len(ways) > 1 else -1
        tools = [message.forked_in for message in own if message.forked_in]
        times = [message.timestamp for message in own]
        found.append(
            OpenBranch(kept[head].id, after, [each.seq for each in own], times[0], times[-1], (tools or [""])[0])
        )
    return found


def seams(messages: Iterable[Outline]) -> dict[int, str]:
    """Return, for each message of a thread that does not follow the one before it there, what it follows, in words."""
    kept = list(messages)
    follows, _ = followed(kept)
    found = {}
    for index, message in enumerate(kept):
        if index and message.forked_from and index - 1 not in follows[index]:
            before = kept[follows[index][0]].seq if follows[index] else -1
            where = f"in {message.forked_in}" if message.forked_in else "elsewhere"
            after = f"after message {before}" if before >= 0 else "at the beginning"
            found[message.seq] = (
                f"A branch: this conversation went on in two places at once. From here on it was said {where}, "
                f"{after}, without knowledge of what stands between"
            )
    return found
