"""The branches in which a conversation goes on, after it was continued in two places at once: machines, or tools."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from cortext.model import clock
from cortext.model.amounts import amount
from cortext.model.message import Outline, followed, up_to


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
