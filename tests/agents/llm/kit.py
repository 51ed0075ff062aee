"""What the tests of the models share: each provider on loopback, and the outcome of a request."""

from __future__ import annotations

from typing import Any

from cortext.agents.llm.anthropic_api import AnthropicModel
from cortext.agents.llm.base import CallRequest, Event, Request, ToolSpec
from cortext.agents.llm.connection import ModelLimits
from cortext.agents.llm.gemini_api import GeminiModel
from cortext.agents.llm.ollama_api import OllamaModel
from cortext.agents.llm.openai_api import OpenAIModel
from cortext.agents.llm.provider import Provider
from cortext.errors import ModelError
from cortext.model.answer import AnswerNote, AnswerText, Done, Thinking
from cortext.model.message import ASSISTANT, TEXT, TOOL, TOOL_CALL, TOOL_RESULT, USER, Message, Part
from tests.support.model_server import ModelServer

PROVIDERS = ("openai", "anthropic", "gemini", "ollama")
KEY = "a-key-of-no-known-form-93fa1c"
QUICK = ModelLimits(connect=2, silence=5, pause=0.01)

LOOK_UP = ToolSpec(
    "look.up",
    "Looks a word up.",
    {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
)


def model(provider: str, server: ModelServer | str, limits: ModelLimits = QUICK, name: str = "test-model") -> Provider:
    """Return a model of that provider that uses this server."""
    url = server if isinstance(server, str) else server.url
    environ = {
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_API_KEY": KEY,
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": KEY,
        "GOOGLE_GEMINI_BASE_URL": url,
        "GEMINI_API_KEY": KEY,
        "OLLAMA_HOST": url,
        "OLLAMA_API_KEY": KEY,
    }
    kinds: dict[str, Any] = {
        "openai": OpenAIModel,
        "anthropic": AnthropicModel,
        "gemini": GeminiModel,
        "ollama": OllamaModel,
    }
    made: Provider = kinds[provider](name, limits, environ)
    return made


def ask(*texts: str, **more: Any) -> Request:
    """Return a request with these texts, the user's first."""
    roles = (USER, ASSISTANT)
    messages = [Message(role=roles[index % 2], content=text) for index, text in enumerate(texts)]
    return Request(messages=messages, **more)


class Outcome:
    """Everything that arrived until the end or the error."""

    def __init__(self, asked: Any, request: Request) -> None:
        self.events: list[Event] = []
        self.error: ModelError | None = None
        try:
            for event in asked.stream(request):
                self.events.append(event)
        except ModelError as error:
            self.error = error

    @property
    def text(self) -> str:
        return "".join(event.text for event in self.events if isinstance(event, AnswerText))

    @property
    def thinking(self) -> str:
        return "".join(event.text for event in self.events if isinstance(event, Thinking))

    @property
    def notes(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, AnswerNote)]

    @property
    def calls(self) -> list[CallRequest]:
        return [event for event in self.events if isinstance(event, CallRequest)]

    @property
    def done(self) -> Done | None:
        last = self.events[-1] if self.events else None
        return last if isinstance(last, Done) else None

    @property
    def said(self) -> list[Event]:
        """What the model said: everything except notes and the end."""
        return [event for event in self.events if isinstance(event, AnswerText | Thinking | CallRequest)]


def called(call: CallRequest, text: str = "") -> Message:
    """Return the assistant's message with a call, as a session stores it."""
    parts = [Part(TEXT, text=text)] if text else []
    return Message(
        role=ASSISTANT, content=text, parts=[*parts, Part(TOOL_CALL, id=call.id, name=call.name, input=call.input)]
    )


def answered(call: CallRequest, output: str, *, is_error: bool = False) -> Message:
    """Return the tool's answer to it."""
    return Message(
        role=TOOL, parts=[Part(TOOL_RESULT, call_id=call.id, name=call.name, output=output, is_error=is_error)]
    )
