"""The scripted answers of the model server and the parsed requests, independent of the protocol."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

Json = dict[str, Any]
TurnKind = Literal["text", "thinking", "tool_call", "tool_result"]

# A prompt may itself ask for a tool call, so that one command line can be a complete test.
_DIRECTIVE = re.compile(r"TOOLCALL:([A-Za-z0-9_.-]+):(\{.*?\}):END", re.DOTALL)


@dataclass(frozen=True)
class ToolCall:
    """A tool call of the model: the tool's name in that program, and its arguments."""

    name: str
    arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Reply:
    """One answer of the model. Without text and tool calls it is the numbered default text."""

    text: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    thinking: str | None = None
    status: int = 200
    # Break the connection after this many stream events, like a network failure.
    cut_after: int | None = None
    # End the stream cleanly after this many events, without the protocol's final event.
    end_after: int | None = None
    # Send invalid JSON after this many events.
    garbage_after: int | None = None
    # Send the protocol's error event after this many events, with status 200.
    error_after: int | None = None
    # Wait for `hold` after `hold_at` stream events, so that a test can interrupt the turn (0: before the status line).
    hold: threading.Event | None = None
    hold_at: int = 1
    # Why the answer ends early: "length" or "filtered".
    stop: str = ""
    # What the request counts as (chat and Gemini only): a program decides by it whether a compaction is of use.
    prompt_tokens: int = 10
    retry_after: str | None = None

    @classmethod
    def call(cls, name: str, **arguments: Any) -> Reply:
        """Return an answer that calls one tool."""
        return cls(tool_calls=(ToolCall(name, arguments),))

    @classmethod
    def error(cls, status: int, message: str = "the model server was told to fail") -> Reply:
        """Return an answer with an HTTP error status."""
        return cls(text=message, status=status)

    @classmethod
    def cut(cls, text: str, after: int) -> Reply:
        """Return a streamed text whose connection breaks after that many events."""
        return cls(text=text, cut_after=after)

    def with_default(self, text: str) -> Reply:
        """Return the reply with this text if it has neither text nor tool calls."""
        return self if self.text is not None or self.tool_calls else replace(self, text=text)


@dataclass(frozen=True)
class Turn:
    """One part of the conversation in a request, independent of the protocol."""

    role: str
    kind: TurnKind
    text: str = ""
    name: str = ""
    arguments: Any = None
    call_id: str = ""


def directive(text: str) -> Reply | None:
    """Return the tool call that a prompt requests with TOOLCALL:<name>:<json>:END, or None."""
    found = _DIRECTIVE.search(text)
    if found is None:
        return None
    return Reply(tool_calls=(ToolCall(found.group(1), json.loads(found.group(2))),))


def pieces(text: str) -> list[str]:
    """Split a text into words with their spaces, the pieces of a stream."""
    return re.findall(r"\s*\S+\s*$|\s*\S+", text) or [text]


def plain_text(content: Any) -> str:
    """Return the text of a content field: a string, a block, or a list of blocks (possibly nested)."""
    if isinstance(content, str):
        return content
    if isinstance(content, dict):
        if isinstance(content.get("text"), str):
            return str(content["text"])
        return plain_text(content.get("content"))
    if isinstance(content, list):
        return "\n".join(text for text in map(plain_text, content) if text)
    return ""
