"""An AI program that answers without its screen: what `llm` asks of an adapter in `tools`.

Neither package imports the other, so what they share is defined here; `wiring` hands the adapters over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Protocol, runtime_checkable

import msgspec

from cortext.model.answer import Done, Note, Text, Thinking


class Question(msgspec.Struct, kw_only=True):
    """One answer that is wanted of a program."""

    name: str  # what the user calls the model: cli/claude
    system: str
    prompt: str  # the whole conversation
    model: str = ""  # as the program names it; empty for its default
    folder: str  # the user's, which it may read
    scratch: str  # ours, private, and kept between runs
    environ: Mapping[str, str] = {}


class Failure(msgspec.Struct, frozen=True):
    """The program says that it failed. `status` is the HTTP status of its API, where it tells."""

    text: str = ""
    status: int = 0
    broke_off: bool = False  # in the middle of an answer that it would now begin again


Said = Text | Thinking | Note | Done | Failure


class Run(msgspec.Struct, kw_only=True):
    """How to run the program once. Nothing of the conversation stands in `arguments`, which everybody can read."""

    arguments: list[str]
    stdin: str
    read: Callable[[dict[str, Any]], Iterator[Said]]  # what a line of its output means; the last is Done or a Failure
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

    def ask(self, question: Question) -> Run:
        """How to get this answer."""
