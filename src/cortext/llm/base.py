"""What every model does, on one page: a request goes in, a stream of events comes out.

    text, thinking …      as the model says them
    call                  the model wants one of our tools run (whole, never in pieces)
    note                  something the user may see ("rate limit: trying again in 2 s")
    done                  always the last one: why it stopped, and what it cost

A stream that breaks raises a ModelError; what came until then was already handed out. A provider retries only
before the first event reached the caller, so that no word is ever said twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import msgspec

from cortext.model.answer import CUT, Done, Note, Text, Thinking, Usage
from cortext.model.message import Message

__all__ = ["CUT", "Call", "Done", "Event", "Model", "Note", "Request", "Text", "Thinking", "ToolSpec", "Usage"]


class ToolSpec(msgspec.Struct, frozen=True):
    """A tool that the model may call: `parameters` is a JSON schema of type object."""

    name: str
    description: str
    parameters: dict[str, Any]


class Request(msgspec.Struct, kw_only=True):
    """One turn asked of a model. Messages are ours (`parts` hold tool calls and results); the provider translates."""

    messages: list[Message]
    system: str = ""
    tools: list[ToolSpec] = []
    max_tokens: int = 0  # 0: the provider's own default


class Call(msgspec.Struct, frozen=True):
    """The model wants a tool run. `input` is {} where the model sent none; `broken` holds what was no JSON."""

    id: str
    name: str
    input: dict[str, Any]
    broken: str = ""


Event = Text | Thinking | Call | Note | Done


class Model(Protocol):
    """A model at hand. `name` is `provider/name`, as the user gives it."""

    name: str
    context: int  # tokens that fit
    takes_tools: bool

    def stream(self, request: Request) -> Iterator[Event]:
        """Ask. Closing the iterator (`.close()`) stops the request, also from another thread's `cancel`."""

    def cancel(self) -> None:
        """Stop what is under way, from any thread; `stream` then raises ModelCut."""

    def warm(self) -> None:
        """Import what is heavy now, while the user types."""
