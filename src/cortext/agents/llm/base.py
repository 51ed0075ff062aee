"""What every model does, on one page: a request goes in, a stream of events comes out.

    text, thinking …      as the model produces them
    call                  the model wants one of our tools run (complete, never in pieces)
    note                  something the user may see ("rate limit: trying again in 2 s")
    done                  always the last one: why it stopped, and what it cost

A stream that breaks raises a ModelError; what arrived before was already yielded. A provider retries only before the
first event has reached the caller, so that nothing is ever said twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import msgspec

from cortext.model.answer import AnswerNote, AnswerText, Done, Thinking
from cortext.model.message import Message


class ToolSpec(msgspec.Struct, frozen=True):
    """A tool that the model may call: `parameters` is a JSON schema of type object."""

    name: str
    description: str
    parameters: dict[str, Any]


class Request(msgspec.Struct, kw_only=True):
    """One turn requested from a model. Messages are ours (`parts` hold calls and results); the provider translates."""

    messages: list[Message]
    system: str = ""
    tools: list[ToolSpec] = []
    max_tokens: int = 0  # 0: the provider's own default


class CallRequest(msgspec.Struct, frozen=True):
    """The model wants a tool run. `input` is {} if it sent none; `broken` holds arguments that were not valid JSON."""

    id: str
    name: str
    input: dict[str, Any]
    broken: str = ""


Event = AnswerText | Thinking | CallRequest | AnswerNote | Done


class ChatModel(Protocol):
    """A usable model. `name` is `provider/name`, as the user gives it."""

    name: str
    context: int  # tokens that fit
    takes_tools: bool

    def stream(self, request: Request) -> Iterator[Event]:
        """Ask. Closing the iterator (`.close()`) stops the request, as does `cancel` from another thread."""

    def cancel(self) -> None:
        """Stop the requests in progress, from any thread; `stream` then raises ModelCut."""

    def warm(self) -> None:
        """Import heavy libraries now, while the user types."""
