"""What a test lets the model answer, and what it reads of the questions: the same for all protocols."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

Json = dict[str, Any]
TurnKind = Literal["text", "thinking", "tool_call", "tool_result"]

# A prompt may itself ask for a tool call, so that one command line is a whole test.
_DIRECTIVE = re.compile(r"TOOLCALL:([A-Za-z0-9_.-]+):(\{.*?\}):END", re.DOTALL)


@dataclass(frozen=True)
class ToolCall:
    """One call the model makes: the tool's name as the program knows it, and its arguments."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Reply:
    """One answer of the model. `None` as text means: the numbered default text, unless a tool is called."""

    text: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    thinking: str | None = None
    status: int = 200
    # Send only this many stream events and then break the connection, as a lost network does.
    cut_after: int | None = None
    # End the stream politely after this many events, without the protocol's own farewell.
    end_after: int | None = None
    # Send something that is no JSON after this many events.
    garbage_after: int | None = None
    # Send the protocol's own error event after this many events, under a status of 200.
    error_after: int | None = None
    # Send this many stream events, then wait for `hold` before the rest: a turn that a test can interrupt.
    # Zero waits before the status line.
    hold: threading.Event | None = None
    hold_at: int = 1
    # Why it stops: "length" or "filtered", in the protocol's words.
    stop: str = ""
    retry_after: str | None = None

    @classmethod
    def call(cls, name: str, **arguments: Any) -> Reply:
        """An answer that calls one tool."""
        return cls(tool_calls=(ToolCall(name, arguments),))

    @classmethod
    def error(cls, status: int, message: str = "the model server was told to fail") -> Reply:
        """An answer with an HTTP error status."""
        return cls(text=message, status=status)

    @classmethod
    def cut(cls, text: str, after: int) -> Reply:
        """A streamed text whose connection breaks after that many events."""
        return cls(text=text, cut_after=after)

    def with_default(self, text: str) -> Reply:
        """The same reply with its text filled in where the test left it open."""
        return self if self.text is not None or self.tool_calls else replace(self, text=text)


@dataclass(frozen=True)
class Turn:
    """One part of the conversation as a request carries it, in the words of no protocol."""

    role: str
    kind: TurnKind
    text: str = ""
    name: str = ""
    arguments: Any = None
    call_id: str = ""


def directive(text: str) -> Reply | None:
    """The tool call that a prompt asks for with TOOLCALL:<name>:<json>:END, if it does."""
    found = _DIRECTIVE.search(text)
    if found is None:
        return None
    return Reply(tool_calls=(ToolCall(found.group(1), json.loads(found.group(2))),))


def pieces(text: str) -> list[str]:
    """A text cut into words with their spaces, so that a stream of it has something to break."""
    return re.findall(r"\s*\S+\s*$|\s*\S+", text) or [text]


def plain_text(content: Any) -> str:
    """The text of a content field: a string, one block, or a list of blocks (with nested content)."""
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        if isinstance(content.get("text"), str):
            return str(content["text"])
        return plain_text(content.get("content"))
    if isinstance(content, list):
        return "\n".join(text for text in map(plain_text, content) if text)
    return ""
