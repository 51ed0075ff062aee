"""OpenAI, and every endpoint that is compatible with its Chat Completions: `openai/name`."""

from __future__ import annotations

import json
import os
from base64 import b64encode
from collections.abc import Generator, Iterator, Mapping
from typing import Any

from cortext.agents.llm import provider
from cortext.agents.llm.base import CallRequest, Event, Request
from cortext.agents.llm.connection import Fault, ModelLimits, RequestFailure, retry_after
from cortext.agents.llm.conversation import ChatTurn, ImageBlock, as_chat, tool_names
from cortext.agents.llm.provider import (
    CallList,
    Provider,
    context_of,
    count,
    entries,
    field,
    http_failed,
    library,
    need_key,
    word,
)
from cortext.model.answer import AnswerText, Done, Thinking, Usage
from cortext.model.turns import tool_name

KEY = "OPENAI_API_KEY"
BASE_URL = "OPENAI_BASE_URL"
OFFICIAL = "https://api.openai.com/v1"
LIBRARY = "openai"
DEFAULT = "gpt-5.5"
KEY_HINT = f"set {KEY} to a key that is valid there"
NEEDS = f"set {KEY}; for another endpoint {BASE_URL} too (a local server needs no key)"

_STOPS = {"length": "length", "content_filter": "filtered", "tool_calls": "tools", "function_call": "tools"}


def here(environ: Mapping[str, str] = os.environ) -> str:
    """Return the model to use if none is named; empty if this provider cannot be used."""
    named = environ.get("OPENAI_MODEL", "")
    if environ.get(BASE_URL):
        # Another endpoint has its own models: the name must be given, or its first one is used. If it does not answer,
        # a key means that it is intended anyway: the error should name the address.
        address, key = environ[BASE_URL].rstrip("/") + "/models", environ.get(KEY, "")
        return named or provider.first_model(address, key) or (DEFAULT if key else "")
    return (named or DEFAULT) if environ.get(KEY) else ""


class OpenAIModel(Provider):
    """A model behind Chat Completions."""

    def __init__(self, model: str, limits: ModelLimits, environ: Mapping[str, str] = os.environ) -> None:
        self._model = model
        self._key = environ.get(KEY, "")
        self._base_url = (environ.get(BASE_URL) or OFFICIAL).rstrip("/")
        if self._base_url == OFFICIAL:
            need_key(f"openai/{model}", self._key, NEEDS)
        fault = Fault(f"openai/{model}", place=self._base_url, key_hint=KEY_HINT, secret=self._key)
        super().__init__(f"openai/{model}", context_of(model), fault, limits)
        self._made: Any = None
        # Options that not every endpoint supports: dropped when one says so.
        self._usage_asked = True
        self._limit_option = "max_tokens"

    def _client(self) -> Any:
        if self._made is None:
            self._made = library(self.name, "openai").OpenAI(
                # Local servers need no key, but the library does.
                api_key=self._key or "none",
                base_url=self._base_url,
                max_retries=0,
                http_client=self._http("httpx2", self._base_url),
            )
        return self._made

    def _foreign(self) -> tuple[type[BaseException], ...]:
        http = library(self.name, "httpx2")
        return (library(self.name, "openai").OpenAIError, http.HTTPError, http.InvalidURL, http.StreamError)

    def _open(self, request: Request) -> Generator[Any, None, None]:
        create = self._client().chat.completions.create
        body = self._body(request)
        if not self._limits.streaming:
            yield create(**body)
            return
        if self._usage_asked:
            body["stream_options"] = {"include_usage": True}
        with create(**body, stream=True) as stream:
            yield from stream

    def _body(self, request: Request) -> dict[str, Any]:
        # Besides typed arguments the library accepts a raw body. Through the typed ones a conversation of 5,000
        # messages takes 1.5 seconds, all spent looking for something to transform.
        body: dict[str, Any] = {"model": self._model, "messages": [], "extra_body": {"messages": messages(request)}}
        if request.tools:
            body["tools"] = tools(request)
        if request.max_tokens:
            body[self._limit_option] = request.max_tokens
        return body

    def _events(self, request: Request, chunks: Iterator[Any]) -> Iterator[Event]:
        calls = CallList(tool_names(request))
        stop, usage, model = "", Usage(), ""
        try:
            for chunk in chunks:
                model = word(chunk, "model") or model
                usage = _usage(field(chunk, "usage")) or usage
                for choice in entries(chunk, "choices")[:1]:
                    # A complete answer has a message where a stream has deltas; the content is the same.
                    delta = field(choice, "delta") or field(choice, "message")
                    if thought := word(delta, "reasoning_content") or word(delta, "reasoning"):
                        yield Thinking(thought)
                    if text := word(delta, "content") or word(delta, "refusal"):
                        yield AnswerText(text)
                    for number, piece in enumerate(entries(delta, "tool_calls")):
                        index, function = field(piece, "index"), field(piece, "function")
                        calls.add(
                            index if isinstance(index, int) else number,
                            word(piece, "id"),
                            word(function, "name"),
                            word(function, "arguments"),
                        )
                    stop = word(choice, "finish_reason") or stop
        except RequestFailure:
            if not stop:  # otherwise the answer is complete, and only the usage is missing
                raise
        if not stop:
            raise self._fault.unfinished()
        made: list[CallRequest] = calls.made()
        yield from made
        yield Done("tools" if made else _STOPS.get(stop, "end"), usage, model)

    def _failed(self, error: BaseException) -> RequestFailure:
        openai, http = library(self.name, "openai"), library(self.name, "httpx2")
        cause = error.__cause__
        if isinstance(error, openai.APIConnectionError) and cause is not None:
            return http_failed(self._fault, http, cause, self._limits) or self._fault.lost(cause)
        if isinstance(error, openai.APIStatusError):
            wait = retry_after(error.response.headers.get("retry-after"))
            return self._fault.status(error.status_code, _said(error), wait=wait)
        if isinstance(error, openai.APIError):
            # An error inside a stream that began well.
            if error.type == "invalid_request_error":
                return self._fault.status(400, error.message)
            return self._fault.status(429 if error.code in ("429", "rate_limit_exceeded") else 503, error.message)
        return http_failed(self._fault, http, error, self._limits) or self._fault.lost(error)

    def _yields(self, failed: RequestFailure) -> bool:
        words = failed.error.message
        if "stream_options" in words and self._usage_asked:
            self._usage_asked = False
            return True
        if "max_completion_tokens" in words and self._limit_option == "max_tokens":
            self._limit_option = "max_completion_tokens"
            return True
        return False


def messages(request: Request) -> list[dict[str, Any]]:
    """Return the conversation in this protocol."""
    return as_chat(request, _assistant, _user)


def tools(request: Request) -> list[dict[str, Any]]:
    """Return our tools in this protocol."""
    return [
        {
            "type": "function",
            "function": {
                "name": tool_name(tool.name),
                "description": tool.description,
                "parameters": tool.parameters or {"type": "object", "properties": {}},
            },
        }
        for tool in request.tools
    ]


def _assistant(turn: ChatTurn) -> list[dict[str, Any]]:
    message: dict[str, Any] = {"role": "assistant"}
    if turn.text or not turn.calls:
        message["content"] = turn.text
    if turn.calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(call.input, ensure_ascii=False)},
            }
            for call in turn.calls
        ]
    return [message]


def _user(turn: ChatTurn) -> list[dict[str, Any]]:
    results: list[dict[str, Any]] = [
        {
            "role": "tool",
            "tool_call_id": answer.id,
            "content": f"[error] {answer.output}" if answer.is_error else answer.output,
        }
        for answer in turn.answers
    ]
    if turn.images:
        pieces: list[dict[str, Any]] = [{"type": "text", "text": turn.text}] if turn.text else []
        pieces += [{"type": "image_url", "image_url": {"url": _data_url(image)}} for image in turn.images]
        results.append({"role": "user", "content": pieces})
    elif turn.text:
        results.append({"role": "user", "content": turn.text})
    return results


def _data_url(image: ImageBlock) -> str:
    return f"data:{image.media_type};base64,{b64encode(image.data).decode('ascii')}"


def _usage(usage: Any) -> Usage | None:
    if usage is None:
        return None
    return Usage(count(usage, "prompt_tokens"), count(usage, "completion_tokens"))


def _said(error: Any) -> str:
    body = error.body
    if isinstance(body, dict) and isinstance(body.get("message"), str):
        return " ".join(word for word in (body["message"], str(body.get("code") or "")) if word)
    return str(error.message)


MODEL = OpenAIModel
