"""Which messages are handed over as turns: the newest that fit."""

from __future__ import annotations

from typing import NamedTuple

from msgspec.structs import replace

from cortext.model import tokens
from cortext.model.message import TOOL, TOOL_RESULT, Message, Part
from cortext.services.resume.history import History
from cortext.services.text.render import body
from cortext.services.text.results import shorten

LARGE = 4  # a result that takes more than this part of the tokens is shortened if not everything fits
HEAD, TAIL = 8_000, 4_000  # characters that are kept of it


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
