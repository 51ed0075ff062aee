"""What comes out of a model, piece by piece, whoever asks it: a provider's API, or an AI program without its screen."""

from __future__ import annotations

import msgspec


class Text(msgspec.Struct, frozen=True):
    """Words of the answer."""

    text: str


class Thinking(msgspec.Struct, frozen=True):
    """Words that the model says to itself; shown if asked for, never sent back."""

    text: str


class Note(msgspec.Struct, frozen=True):
    """A word to the user from the code that asks, not from the model."""

    text: str


class Usage(msgspec.Struct, frozen=True):
    """Tokens as the provider counted them; -1 where it does not tell."""

    input: int = -1
    output: int = -1


CUT = ("length", "filtered")  # the model ended, but not because it had said everything


class Done(msgspec.Struct, frozen=True):
    """The end of an answer. `stop` is end, tools, length (the model's limit) or filtered (its provider's filter)."""

    stop: str = "end"
    usage: Usage = Usage()
    model: str = ""
