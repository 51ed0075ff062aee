"""Anthropic's Messages API and compatible endpoints: `anthropic/name`."""

from __future__ import annotations

import os
from base64 import b64encode
from collections.abc import Generator, Iterator, Mapping
from typing import Any

from cortext.agents.llm.base import Event, Request
from cortext.agents.llm.connection import Fault, ModelLimits, RequestFailure, retry_after
from cortext.agents.llm.conversation import (
    Block,
    CallBlock,
    ChatTurn,
    ImageBlock,
    ResultBlock,
    tool_names,
    turns_of_request,
)
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
from cortext.model.turns import tool_name, whole_characters

KEY = "ANTHROPIC_API_KEY"
TOKEN = "ANTHROPIC_AUTH_TOKEN"
BASE_URL = "ANTHROPIC_BASE_URL"
OFFICIAL = "https://api.anthropic.com"
LIBRARY = "anthropic"
DEFAULT = "claude-sonnet-5-5"
KEY_HINT = f"set {KEY} to a key that is valid there"
NEEDS = f"set {KEY}"

# This API always requires a limit. The smaller one is for models that reject the larger.
_MOST, _LESS = 16_384, 4_096
_CACHED = {"type": "ephemeral"}
_STOPS = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "tool_use": "tools",
    "refusal": "filtered",
}
# An error inside a stream is identified by its type; its status is 200.
_STATUS = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "timeout_error": 504,
    "overloaded_error": 529,
}


def here(environ: Mapping[str, str] = os.environ) -> str:
    """Return the model to use if none is named; empty if this provider cannot be used."""
    usable = environ.get(KEY) or environ.get(TOKEN)
    return (environ.get("ANTHROPIC_MODEL") or DEFAULT) if usable else ""


class AnthropicModel(Provider):
    """A model behind the Messages API."""

    def __init__(self, model: str, limits: ModelLimits, environ: Mapping[str, str] = os.environ) -> None:
        self._model = model
        self._key = environ.get(KEY, "")
        self._token = "" if self._key else environ.get(TOKEN, "")
        self._base_url = (environ.get(BASE_URL) or OFFICIAL).rstrip("/")
        if self._base_url == OFFICIAL:
            need_key(f"anthropic/{model}", self._key or self._token, NEEDS)
        fault = Fault(f"anthropic/{model}", place=self._base_url, key_hint=KEY_HINT, secret=self._key or self._token)
        super().__init__(f"anthropic/{model}", context_of(model, 200_000), fault, limits)
        self._made: Any = None
        self._most = _MOST

    def _client(self) -> Any:
        if self._made is None:
            secret = {"auth_token": self._token} if self._token else {"api_key": self._key or "none"}
            self._made = library(self.name, "anthropic").Anthropic(
                **secret,
                base_url=self._base_url,
                max_retries=0,
                http_client=self._http("httpx2", self._base_url),
                open_telemetry=False,
            )
        return self._made

    def _foreign(self) -> tuple[type[BaseException], ...]:
        http = library(self.name, "httpx2")
        return (library(self.name, "anthropic").AnthropicError, http.HTTPError, http.InvalidURL, http.StreamError)

    def _open(self, request: Request) -> Generator[Any, None, None]:
        create = self._client().messages.create
        body = _body(self._model, request, self._most)
        if not self._limits.streaming:
            # The library refuses long answers without streaming unless a timeout is given; ours applies anyway.
            yield create(**body, timeout=self._limits.silence)
            return
        with create(**body, stream=True) as stream:
            yield from stream

    def _events(self, request: Request, chunks: Iterator[Any]) -> Iterator[Event]:
        calls = CallList(tool_names(request))
        stop, model, asked, said = "", "", -1, -1
        try:
            for chunk in chunks:
                kind = field(chunk, "type")
                if kind in ("message_start", "message"):
                    message = chunk if kind == "message" else field(chunk, "message")
                    model = word(message, "model")
                    asked, said = _asked(field(message, "usage")), count(field(message, "usage"), "output_tokens")
                    stop = word(message, "stop_reason") or stop
                    for index, block in enumerate(entries(message, "content")):
                        yield from _begun(calls, index, block)
                elif kind == "content_block_start":
                    yield from _begun(calls, field(chunk, "index"), field(chunk, "content_block"))
                elif kind == "content_block_delta":
                    delta = field(chunk, "delta")
                    if text := word(delta, "text"):
                        yield AnswerText(text)
                    if thought := word(delta, "thinking"):
                        yield Thinking(thought)
                    if piece := word(delta, "partial_json"):
                        calls.add(str(field(chunk, "index")), "", "", piece)
                elif kind == "message_delta":
                    stop = word(field(chunk, "delta"), "stop_reason") or stop
                    said = max(said, count(field(chunk, "usage"), "output_tokens"))
        except RequestFailure:
            if not stop:  # otherwise the answer is complete, and only the final event is missing
                raise
        if not stop:
            raise self._fault.unfinished()
        made = calls.made()
        yield from made
        yield Done("tools" if made else _STOPS.get(stop, "end"), Usage(asked, said), model)

    def _failed(self, error: BaseException) -> RequestFailure:
        anthropic, http = library(self.name, "anthropic"), library(self.name, "httpx2")
        if isinstance(error, anthropic.APIStatusError):
            status = _STATUS.get(error.type or "", 500) if error.status_code == 200 else error.status_code
            wait = retry_after(error.response.headers.get("retry-after"))
            return self._fault.status(status, error.api_message or error.message, wait=wait)
        if isinstance(error, anthropic.APIConnectionError) and error.__cause__ is not None:
            error = error.__cause__
        return http_failed(self._fault, http, error, self._limits) or self._fault.lost(error)

    def _yields(self, failed: RequestFailure) -> bool:
        if "max_tokens" in failed.error.message and self._most > _LESS:
            self._most = _LESS
            return True
        return False


def _body(model: str, request: Request, most: int) -> dict[str, Any]:
    conversation = turns_of_request(request)
    body: dict[str, Any] = {
        "model": model,
        "max_tokens": request.max_tokens or most,
        "messages": [
            {"role": turn.role, "content": [_block(block) for block in _in_order(turn)]} for turn in conversation
        ],
    }
    if request.system.strip():
        body["system"] = [{"type": "text", "text": whole_characters(request.system), "cache_control": _CACHED}]
    # The next turn reads the conversation so far from the cache, at a tenth of the price.
    body["messages"][-1]["content"][-1]["cache_control"] = _CACHED
    if request.tools:
        body["tools"] = [_tool(tool.name, tool.description, tool.parameters) for tool in request.tools]
    elif called := sorted({call.name for turn in conversation for call in turn.calls}):
        # Earlier calls are rejected if no tools are declared: declare them, and forbid their use.
        body["tools"] = [_tool(name, "Was used earlier in this conversation.", {}) for name in called]
        body["tool_choice"] = {"type": "none"}
    return body


def _tool(name: str, description: str, parameters: dict[str, Any]) -> dict[str, Any]:
    schema = {"type": "object", "properties": {}, **parameters}
    return {"name": tool_name(name), "description": description, "input_schema": schema}


def _in_order(turn: ChatTurn) -> list[Block]:
    """Return the blocks with results first and calls last."""
    return sorted(turn.blocks, key=lambda block: (not isinstance(block, ResultBlock), isinstance(block, CallBlock)))


def _block(block: Block) -> dict[str, Any]:
    if isinstance(block, CallBlock):
        return {"type": "tool_use", "id": block.id, "name": block.name, "input": block.input}
    if isinstance(block, ResultBlock):
        answer = {"type": "tool_result", "tool_use_id": block.id, "content": block.output}
        return {**answer, "is_error": True} if block.is_error else answer
    if isinstance(block, ImageBlock):
        data = b64encode(block.data).decode("ascii")
        return {"type": "image", "source": {"type": "base64", "media_type": block.media_type, "data": data}}
    return {"type": "text", "text": block.text}


def _begun(calls: CallList, index: Any, block: Any) -> Iterator[Event]:
    """Handle a content block: empty if its text follows in a stream, complete otherwise."""
    if field(block, "type") == "tool_use":
        given = field(block, "input")
        calls.add(str(index), word(block, "id"), word(block, "name"), given if isinstance(given, dict) else "")
    if text := word(block, "text"):
        yield AnswerText(text)
    if thought := word(block, "thinking"):
        yield Thinking(thought)


def _asked(usage: Any) -> int:
    return count(usage, "input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


MODEL = AnthropicModel
