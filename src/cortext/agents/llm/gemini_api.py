"""Google's Gemini API: `gemini/name`."""

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

KEY = "GEMINI_API_KEY"
OTHER_KEY = "GOOGLE_API_KEY"
BASE_URL = "GOOGLE_GEMINI_BASE_URL"
OFFICIAL = "https://generativelanguage.googleapis.com"
LIBRARY = "google.genai"
DEFAULT = "gemini-3.8-flash"
KEY_HINT = f"set {KEY} to a key that is valid there"
NEEDS = f"set {KEY}"

_WHOLE = ("STOP", "FINISH_REASON_UNSPECIFIED")
# The model tried to call a tool and failed: there is no answer.
_NO_ANSWER = ("MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "MALFORMED_RESPONSE")
# Since Gemini 3 a call carries a signature, which other models' calls and our stored ones lack. Google defines this
# value to mean "not signed".
_UNSIGNED = "skip_thought_signature_validator"


def here(environ: Mapping[str, str] = os.environ) -> str:
    """Return the model to use if none is named; empty if this provider cannot be used."""
    usable = environ.get(KEY) or environ.get(OTHER_KEY)
    return (environ.get("GEMINI_MODEL") or DEFAULT) if usable else ""


class GeminiModel(Provider):
    """A model behind generateContent."""

    def __init__(self, model: str, limits: ModelLimits, environ: Mapping[str, str] = os.environ) -> None:
        self._model = model
        self._key = environ.get(KEY) or environ.get(OTHER_KEY) or ""
        self._base_url = (environ.get(BASE_URL) or OFFICIAL).rstrip("/")
        if self._base_url == OFFICIAL:
            need_key(f"gemini/{model}", self._key, NEEDS)
        fault = Fault(f"gemini/{model}", place=self._base_url, key_hint=KEY_HINT, secret=self._key)
        super().__init__(f"gemini/{model}", context_of(model, 1_048_576), fault, limits)
        self._made: Any = None

    def _client(self) -> Any:
        if self._made is None:
            types = library(self.name, "google.genai.types")
            options = types.HttpOptions(base_url=self._base_url, httpx_client=self._http("httpx2", self._base_url))
            # Explicit, so that variables meant for Google Cloud do not redirect it.
            self._made = library(self.name, "google.genai").Client(
                api_key=self._key or "none", vertexai=False, http_options=options
            )
        return self._made

    def _foreign(self) -> tuple[type[BaseException], ...]:
        http = library(self.name, "httpx2")
        return (library(self.name, "google.genai.errors").APIError, http.HTTPError, http.InvalidURL, http.StreamError)

    def _open(self, request: Request) -> Generator[Any, None, None]:
        models = self._client().models
        ask = models.generate_content_stream if self._limits.streaming else models.generate_content
        config = _config(request)
        # Besides typed arguments the library accepts a raw body: 5,000 messages take four seconds through the typed
        # ones.
        config["http_options"] = {"extra_body": {"contents": _contents(request, signed=_wants_signature(self._model))}}
        types = library(self.name, "google.genai.types")
        answer = ask(model=self._model, contents="-", config=types.GenerateContentConfig(**config))
        if self._limits.streaming:
            yield from answer
        else:
            yield answer

    def _events(self, request: Request, chunks: Iterator[Any]) -> Iterator[Event]:
        calls = CallList(tool_names(request))
        stop, usage, model, number = "", Usage(), "", 0
        try:
            for chunk in chunks:
                model = word(chunk, "model_version") or model
                usage = _usage(field(chunk, "usage_metadata")) or usage
                if field(field(chunk, "prompt_feedback"), "block_reason"):
                    stop = "SAFETY"
                for candidate in entries(chunk, "candidates")[:1]:
                    for part in entries(field(candidate, "content"), "parts"):
                        if text := word(part, "text"):
                            yield Thinking(text) if field(part, "thought") else AnswerText(text)
                        if call := field(part, "function_call"):
                            number += 1
                            calls.add(number, word(call, "id"), word(call, "name"), field(call, "args") or {})
                    reason = field(candidate, "finish_reason")
                    stop = str(field(reason, "value") or reason or "") or stop
        except RequestFailure:
            if not stop:
                raise
        if not stop:
            raise self._fault.unfinished()
        if stop in _NO_ANSWER:
            raise self._fault.garbled(stop)
        made = calls.made()
        yield from made
        yield Done("tools" if made else _stop(stop), usage, model)

    def _failed(self, error: BaseException) -> RequestFailure:
        if isinstance(error, library(self.name, "google.genai.errors").APIError):
            headers = field(error.response, "headers") or {}
            said = error.message or error.status
            # A wrong key is a 400 here, recognisable only by its text.
            status = 401 if error.code == 400 and "api key" in str(said).lower() else int(error.code or 500)
            return self._fault.status(status, said, wait=retry_after(headers.get("retry-after")))
        http = library(self.name, "httpx2")
        return http_failed(self._fault, http, error, self._limits) or self._fault.lost(error)


def _contents(request: Request, *, signed: bool) -> list[dict[str, Any]]:
    return [
        {"role": "model" if turn.role == "assistant" else "user", "parts": _parts(turn, signed)}
        for turn in turns_of_request(request)
    ]


def _parts(turn: ChatTurn, signed: bool) -> list[dict[str, Any]]:
    first = next(iter(turn.calls), None)
    parts = []
    # Results come first in their turn.
    for block in sorted(turn.blocks, key=lambda block: not isinstance(block, ResultBlock)):
        part = _part(block)
        if signed and block is first:
            part["thoughtSignature"] = _UNSIGNED
        parts.append(part)
    return parts


def _part(block: Block) -> dict[str, Any]:
    if isinstance(block, CallBlock):
        return {"functionCall": {"id": block.id, "name": block.name, "args": block.input}}
    if isinstance(block, ResultBlock):
        response = {"error" if block.is_error else "output": block.output}
        return {"functionResponse": {"id": block.id, "name": block.name, "response": response}}
    if isinstance(block, ImageBlock):
        return {"inlineData": {"mimeType": block.media_type, "data": b64encode(block.data).decode("ascii")}}
    return {"text": block.text}


def _config(request: Request) -> dict[str, Any]:
    # The library would call Python functions by itself; ours are only declared, so it must not try.
    config: dict[str, Any] = {"automatic_function_calling": {"disable": True}}
    if request.system.strip():
        config["system_instruction"] = whole_characters(request.system)
    if request.max_tokens:
        config["max_output_tokens"] = request.max_tokens
    if request.tools:
        config["tools"] = [{"function_declarations": [_declared(tool) for tool in request.tools]}]
    return config


def _declared(tool: Any) -> dict[str, Any]:
    declared = {"name": tool_name(tool.name), "description": tool.description}
    # An object without properties is rejected: a tool without parameters is declared without a schema.
    return {**declared, "parameters_json_schema": tool.parameters} if tool.parameters.get("properties") else declared


def _wants_signature(model: str) -> bool:
    return not model.rsplit("/", 1)[-1].startswith(("gemini-1", "gemini-2", "gemma"))


def _stop(reason: str) -> str:
    # Every other reason (SAFETY, RECITATION, … and OTHER) ends an answer early.
    return "length" if reason == "MAX_TOKENS" else "end" if reason in _WHOLE else "filtered"


def _usage(usage: Any) -> Usage | None:
    if usage is None:
        return None
    return Usage(count(usage, "prompt_token_count"), count(usage, "candidates_token_count", "thoughts_token_count"))


MODEL = GeminiModel
