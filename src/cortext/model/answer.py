"""What comes out of a model, piece by piece, whoever asks it: a provider's API, or an AI program without its screen.

`Headless` is what `llm` asks of an adapter in `tools`. Neither package imports the other, so what they share is defined
here; `wiring` hands the adapters over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

import msgspec


class AnswerText(msgspec.Struct, frozen=True):
    """Words of the answer."""

    text: str


class Thinking(msgspec.Struct, frozen=True):
    """Words that the model says to itself; shown if asked for, never sent back."""

    text: str


class AnswerNote(msgspec.Struct, frozen=True):
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


class HeadlessPrompt(msgspec.Struct, kw_only=True):
    """One answer that is wanted of a program."""

    name: str  # what the user calls the model: cli/claude
    system: str
    prompt: str  # the whole conversation
    model: str = ""  # as the program names it; empty for its default
    folder: str  # the user's, which it may read
    scratch: str  # ours, private, and kept between runs
    environ: Mapping[str, str] = {}


class ProgramFailure(msgspec.Struct, frozen=True):
    """The program says that it failed. `status` is the HTTP status of its API, where it tells."""

    text: str = ""
    status: int = 0
    broke_off: bool = False  # in the middle of an answer that it would now begin again


AnswerPiece = AnswerText | Thinking | AnswerNote | Done | ProgramFailure


class Run(msgspec.Struct, kw_only=True):
    """How to run the program once. Nothing of the conversation stands in `arguments`, which everybody can read."""

    arguments: list[str]
    stdin: str
    read: Callable[
        [dict[str, Any]], Iterator[AnswerPiece]
    ]  # what a line of its output means; the last is Done or a Failure
    env: dict[str, str] = {}  # added to the environment
    folder: str = ""  # where it runs; empty for the user's folder
    without: tuple[str, ...] = ()  # variables that it must not see
    clean_up: Callable[[], None] | None = None  # when it has ended: takes away what the program kept of the run


@runtime_checkable
class Headless(Protocol):
    """A tool whose program answers one prompt in lines of JSON.

    It may read files in the user's folder and do nothing else there. Settings in that folder are ignored, because a
    stranger may have written them. The program stores nothing of the run: cortext stores the conversation.
    """

    name: str
    title: str
    install_command: str  # npm install -g …
    headless_context: int  # tokens that fit

    def program_path(self) -> str:
        """Where the program is; empty where it is not installed. Nothing is run for it."""

    def ask(self, question: HeadlessPrompt) -> Run:
        """How to get this answer."""
