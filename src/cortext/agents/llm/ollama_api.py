"""Models on this machine (or another) through Ollama: `ollama/name`."""

from __future__ import annotations

import os
import weakref
from collections.abc import Generator, Iterator, Mapping
from typing import Any

from cortext.agents.llm import connection, provider
from cortext.agents.llm.base import Event, Request
from cortext.agents.llm.connection import Fault, ModelLimits, RequestFailure
from cortext.agents.llm.conversation import ChatTurn, as_chat, tool_names
from cortext.agents.llm.provider import CallList, Provider, context_of, count, field, http_failed, library, word
from cortext.model import tokens
from cortext.model.answer import AnswerText, Done, Thinking, Usage
from cortext.model.turns import tool_name

HOST = "OLLAMA_HOST"
KEY = "OLLAMA_API_KEY"
KEY_HINT = f"set {KEY}, if the server at {HOST} wants a key"
LIBRARY = "ollama"
USUAL = "http://127.0.0.1:11434"
NEEDS = "start Ollama and fetch a model, for example: ollama pull qwen3"

_USUAL_CONTEXT = 4_096
_ROOM = 2_048  # tokens reserved for the answer


def address(environ: Mapping[str, str] = os.environ) -> str:
    """Return Ollama's address: OLLAMA_HOST may be a bare host, a port, or a full address."""
    given = environ.get(HOST, "").strip().rstrip("/")
    if not given:
        return USUAL
    scheme, separator, rest = given.partition("://")
    if not separator:
        scheme, rest = "http", given
    host, _, port = rest.partition("/")[0].rpartition(":") if ":" in rest else (rest, "", "")
    # A server listens on 0.0.0.0; a client that uses it means this machine.
    host = host.replace("0.0.0.0", "127.0.0.1") or "127.0.0.1"
    return f"{scheme}://{host}:{port or {'https': '443', 'http': '11434'}.get(scheme, '11434')}"


def here(environ: Mapping[str, str] = os.environ) -> str:
    """Return the model to use if none is named; empty if Ollama is not running or has no model."""
    return environ.get("OLLAMA_MODEL", "") or provider.first_model(f"{address(environ)}/api/tags")


class OllamaModel(Provider):
    """A model behind Ollama's chat."""

    def __init__(self, model: str, limits: ModelLimits, environ: Mapping[str, str] = os.environ) -> None:
        self._model = model
        self._host = address(environ)
        fault = Fault(f"ollama/{model}", place=self._host, key_hint=KEY_HINT, secret=environ.get(KEY, ""))
        super().__init__(f"ollama/{model}", context_of(model, 32_768), fault, limits)
        self._made: Any = None
        self._window = 0

    def _client(self) -> Any:
        if self._made is None:
            ollama = library(self.name, "ollama")
            self._made = ollama.Client(self._host, **connection.options(self._wire, self._host))
            weakref.finalize(self, self._made.close)
        return self._made

    def _foreign(self) -> tuple[type[BaseException], ...]:
        http = library(self.name, "httpx")
        return (library(self.name, "ollama").ResponseError, http.HTTPError, http.InvalidURL, http.StreamError)

    def _open(self, request: Request) -> Generator[Any, None, None]:
        conversation = messages(request)
        body: dict[str, Any] = {"model": self._model, "messages": conversation}
        if request.tools:
            body["tools"] = [_tool(tool) for tool in request.tools]
        if options := self._options(request, conversation):
            body["options"] = options
        if self._limits.streaming:
            yield from self._client().chat(**body, stream=True)
        else:
            yield self._client().chat(**body)

    def _options(self, request: Request, conversation: list[dict[str, Any]]) -> dict[str, int]:
        options = {"num_predict": request.max_tokens} if request.max_tokens else {}
        # Ollama's window is small, and it silently drops the beginning: request one in which everything fits. It only
        # grows, by doubling, because another size means loading the model again.
        needed = tokens.estimate(str(conversation)) + (request.max_tokens or _ROOM)
        window = max(self._window, _USUAL_CONTEXT)
        while window < needed and window < self.context:
            window *= 2
        self._window = min(window, max(self.context, _USUAL_CONTEXT))
        if self._window > _USUAL_CONTEXT:
            options["num_ctx"] = self._window
        return options

    def _events(self, request: Request, chunks: Iterator[Any]) -> Iterator[Event]:
        calls = CallList(tool_names(request))
        done, reason, usage, model, number = False, "", Usage(), "", 0
        for chunk in chunks:
            model = word(chunk, "model") or model
            message = field(chunk, "message")
            if thought := word(message, "thinking"):
                yield Thinking(thought)
            if text := word(message, "content"):
                yield AnswerText(text)
            for call in field(message, "tool_calls") or ():
                number += 1
                function = field(call, "function")
                calls.add(number, "", word(function, "name"), dict(field(function, "arguments") or {}))
            if field(chunk, "done"):
                done, reason = True, word(chunk, "done_reason")
                usage = Usage(count(chunk, "prompt_eval_count"), count(chunk, "eval_count"))
                break
        if not done:
            raise self._fault.unfinished()
        made = calls.made()
        yield from made
        yield Done("tools" if made else "length" if reason == "length" else "end", usage, model)

    def _failed(self, error: BaseException) -> RequestFailure:
        if isinstance(error, library(self.name, "ollama").ResponseError):
            failed = self._fault.status(error.status_code if error.status_code > 0 else 500, error.error)
            if error.status_code == 404:
                failed.error.hint = f"fetch it with: ollama pull {self._model}"
            return failed
        found = http_failed(self._fault, library(self.name, "httpx"), error, self._limits)
        if found is None and isinstance(error, ConnectionError):
            found = self._fault.no_connection()
        found = found or self._fault.lost(error)
        if "no connection" in found.error.message:
            found.error.hint = "start it with: ollama serve"
        return found


def messages(request: Request) -> list[dict[str, Any]]:
    """Return the conversation in this protocol."""
    return as_chat(request, _assistant, _user)


def _assistant(turn: ChatTurn) -> list[dict[str, Any]]:
    message: dict[str, Any] = {"role": "assistant", "content": turn.text}
    if turn.calls:
        message["tool_calls"] = [{"function": {"name": call.name, "arguments": call.input}} for call in turn.calls]
    return [message]


def _user(turn: ChatTurn) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = [
        {
            "role": "tool",
            "tool_name": answer.name,
            "content": f"[error] {answer.output}" if answer.is_error else answer.output,
        }
        for answer in turn.answers
    ]
    if turn.text or turn.images:
        said: dict[str, Any] = {"role": "user", "content": turn.text}
        if turn.images:
            said["images"] = [image.data for image in turn.images]
        results.append(said)
    return results


def _tool(tool: Any) -> dict[str, Any]:
    function = {"name": tool_name(tool.name), "description": tool.description}
    return {"type": "function", "function": {**function, "parameters": {"type": "object", **tool.parameters}}}


MODEL = OllamaModel
