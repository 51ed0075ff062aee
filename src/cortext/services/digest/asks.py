"""What the user asked for: the last ask and what it answers, and the task that it belongs to."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from typing import NamedTuple

from cortext.model.message import ASSISTANT, ATTACHMENT, USER, Message
from cortext.services.digest.calls import Call
from cortext.services.text.sentences import COMMAND, MARKUP, sentences, terms, text_of

SHORT = 3  # significant words: an ask with fewer only says how to go on with what was asked before
SHARED = 2  # significant words that two asks about the same task have in common
OWN_WORDS = 600  # characters at the beginning of an ask; what follows is mostly pasted
MISSED = 3  # turns in a row about something else, after which the turns before belong to another task
# What tools write in the user's name when the user wrote nothing.
_NOTICE = re.compile(r"\[Request interrupted|Operation stopped|\[RESUMED CONVERSATION\]|Caveat: ")


class Turn(NamedTuple):
    """An ask of the user with its significant words, and where in the messages its turn begins and ends."""

    ask: str
    words: frozenset[str]
    start: int
    end: int

    @property
    def is_short(self) -> bool:
        """Whether the ask only says how to go on."""
        return len(self.words) < SHORT


def ask_of(message: Message) -> str:
    """Return what a user's message asks; empty if it is another's, or written by a tool in the user's name."""
    if message.role != USER or message.aside or (message.extra is not None and ATTACHMENT in message.extra):
        return ""
    text = text_of(message).strip()
    if _NOTICE.match(text):
        return ""
    return text if not text.startswith("<") or MARKUP.sub("", text).strip() else ""


def turns(messages: Sequence[Message]) -> list[Turn]:
    """Return the user's turns, in order. What precedes the first ask belongs to none."""
    starts = [(index, ask) for index, message in enumerate(messages) if (ask := ask_of(message))]
    ends = [*(index for index, _ in starts[1:]), len(messages)]
    return [
        Turn(ask, terms(COMMAND.sub("", ask[:OWN_WORDS])), start, end)
        for (start, ask), end in zip(starts, ends, strict=False)
    ]


def task(found: Sequence[Turn], calls: Sequence[Call]) -> list[Turn]:
    """Return the turns of the current task: the last one, and those before it that hang together with it.

    A turn hangs together with the task if it shares words with its asks, or a file that was used. A few turns about
    something else do not end a task.
    """
    if not found:
        return []
    files: list[set[str]] = [set() for _ in found]
    starts = [turn.start for turn in found]
    for call in calls:
        if call.at >= starts[0]:
            files[bisect_right(starts, call.at) - 1].update(use.path for use in call.files)
    chosen = len(found) - 1
    words, used = set(found[chosen].words), set(files[chosen])
    agrees = found[chosen].is_short  # "yes" continues whatever was before it
    for index in range(len(found) - 2, -1, -1):
        own = found[index].words
        if agrees or len(own & words) >= SHARED or files[index] & used:
            chosen = index
            words |= own
            used |= files[index]
            agrees = agrees and found[index].is_short
        elif chosen - index > MISSED:
            break
    while chosen < len(found) - 1 and found[chosen].is_short:
        chosen += 1  # a task does not begin with "yes"
    return list(found[chosen:])


def answered_before(messages: Sequence[Message], turn: Turn) -> str:
    """Return the end of the answer that an ask replies to: what "yes" agrees with."""
    for message in reversed(messages[: turn.start]):
        if message.role == ASSISTANT and message.content.strip():
            found = sentences(message.content)
            return found[-1] if found else ""
    return ""


def last_words(messages: Sequence[Message], turn: Turn) -> str:
    """Return what the model said last in a turn; empty if it said nothing."""
    texts = (message.content.strip() for message in reversed(messages[turn.start : turn.end]) if is_answer(message))
    return next(texts, "")


def is_answer(message: Message) -> bool:
    """Whether a message is a text of the model."""
    return message.role == ASSISTANT and not message.partial and bool(message.content.strip())
