"""What the API providers share: retries, cutting, cancelling, calls in pieces, the models of a server and their sizes.

A provider opens a stream of its library's chunks (`_open`) and turns them into events (`_events`), which is pure.
Everything that a library raises is caught between the two, in `_guarded`, and nowhere else.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import threading
import urllib.request
import weakref
from collections.abc import Generator, Iterator
from importlib import import_module
from typing import Any, NoReturn
from urllib.error import HTTPError, URLError

import msgspec

from cortext.agents.llm import connection
from cortext.agents.llm.base import CallRequest, Event, Request
from cortext.agents.llm.connection import Fault, ModelLimits, RequestFailure, WeakItems, Wire
from cortext.distribution import install_hint
from cortext.errors import CortextError, ModelCut, NoModel
from cortext.io.http import opener
from cortext.model.answer import AnswerNote

# What a library may raise on an unexpected response, besides its own errors.
_STRANGE = (ValueError, TypeError, AttributeError, LookupError, RecursionError, AssertionError)


class ModelRequest:
    """One request in progress: may be stopped from any thread."""

    def __init__(self) -> None:
        self.stopped = threading.Event()


class Provider:
    """A model behind an API. The parts that differ are the methods that raise NotImplementedError."""

    takes_tools = True

    def __init__(self, name: str, context: int, fault: Fault, limits: ModelLimits) -> None:
        self.name, self.context = name, context
        self._fault, self._limits = fault, limits
        self._wire = Wire(limits)
        self._under_way: WeakItems[ModelRequest] = WeakItems()

    def stream(self, request: Request) -> Iterator[Event]:
        """Ask. Registered immediately, so that a `cancel` before the first event counts."""
        asking = ModelRequest()
        self._under_way.add(asking)
        return self._answer(request, asking)

    def cancel(self) -> None:
        """Stop the requests in progress and break their connections."""
        for asking in self._under_way.all():
            asking.stopped.set()
        self._wire.cut()

    def warm(self) -> None:
        """Import the library and create its client; errors are reported when it is asked."""
        try:
            self._client()
        except (CortextError, OSError, *_STRANGE):
            pass

    def _http(self, module: str, url: str) -> Any:
        """Return an httpx or httpx2 client for that address; its connections are closed with this model."""
        made = library(self.name, module).Client(**connection.options(self._wire, url))
        weakref.finalize(self, made.close)
        return made

    # ── implemented by each provider ─────────────────────────────────────────────────────────────────

    def _client(self) -> Any:
        raise NotImplementedError

    def _open(self, request: Request) -> Generator[Any, None, None]:
        """Ask the library and yield its chunks. Closing the generator closes the connection."""
        raise NotImplementedError

    def _events(self, request: Request, chunks: Iterator[Any]) -> Iterator[Event]:
        """Yield our events, Done last. A stream that ends too soon raises `self._fault.unfinished()`."""
        raise NotImplementedError

    def _foreign(self) -> tuple[type[BaseException], ...]:
        """Return the base classes of the library's exceptions."""
        raise NotImplementedError

    def _failed(self, error: BaseException) -> RequestFailure:
        """Map one of them to our errors."""
        raise NotImplementedError

    def _yields(self, failed: RequestFailure) -> bool:
        """Whether the request was changed so that the server will accept it now (without an unsupported option)."""
        return False

    # ── the shared policy ────────────────────────────────────────────────────────────────────────────

    def _answer(self, request: Request, asking: ModelRequest) -> Iterator[Event]:
        attempt = 0
        while True:
            said = False
            chunks = self._guarded(request, asking)
            try:
                for event in self._events(request, chunks):
                    said = True
                    yield event
                return
            except RequestFailure as failed:
                trouble = failed
            finally:
                chunks.close()
            # Once any text was yielded nothing is retried: it would be said twice.
            if said:
                raise self._fault.cut(trouble) from None
            if self._yields(trouble):
                continue
            wait = self._wait(trouble, attempt)
            attempt += 1
            yield AnswerNote(
                f"{trouble.error.message}: trying again in {wait:.0f} s ({attempt} of {self._limits.retries})"
            )
            if asking.stopped.wait(wait):
                raise self._fault.stopped()

    def _wait(self, trouble: RequestFailure, attempt: int) -> float:
        """Return how long to wait before the next attempt; raise if that would not help."""
        if not trouble.again or attempt >= self._limits.retries:
            raise trouble.error from None
        if trouble.wait is None:
            # The jitter keeps clients that were rejected together from coming back together.
            return float(min(self._limits.pause * 2**attempt, self._limits.longest_pause) * random.uniform(0.75, 1.25))
        if trouble.wait > self._limits.longest_pause:
            error = trouble.error
            error.hint = f"it asks to wait {trouble.wait:.0f} s; send it again then, or use another --model"
            raise error from None
        return trouble.wait

    def _guarded(self, request: Request, asking: ModelRequest) -> Generator[Any, None, None]:
        """Yield the library's chunks; what it raises becomes `RequestFailure`, or ModelCut if we were told to stop."""
        opened = self._open(request)
        foreign: tuple[type[BaseException], ...] = (*self._foreign(), OSError)
        try:
            for chunk in opened:
                if asking.stopped.is_set():
                    raise self._fault.stopped()
                yield chunk
        except ModelCut:
            raise
        except foreign as error:
            self._give_up(asking, self._failed(error))
        except _STRANGE as error:
            self._give_up(asking, self._fault.garbled(f"{type(error).__name__} {error}"))
        finally:
            opened.close()
        if asking.stopped.is_set():
            raise self._fault.stopped()

    def _give_up(self, asking: ModelRequest, failed: RequestFailure) -> NoReturn:
        # Our own cut shows up as a connection error, which is not the reason.
        if asking.stopped.is_set():
            raise self._fault.stopped() from None
        raise failed from None


def need_key(name: str, key: str, needs: str) -> None:
    """Raise at once if a key is missing, before anything is sent."""
    if not key:
        raise NoModel(f"there is no key for {name}", kept="nothing was sent", hint=needs)


def library(name: str, module: str) -> Any:
    """Return a client library, or raise NoModel with how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise NoModel(
            f"{name} needs the library {module}, which cannot be loaded ({error})",
            kept="nothing was sent",
            hint=install_hint("models"),
        ) from error


def http_failed(fault: Fault, http: Any, error: BaseException, limits: ModelLimits) -> RequestFailure | None:
    """Map an error of httpx (or httpx2) to ours; None if it is not one."""
    if isinstance(error, (http.ConnectError, http.ConnectTimeout, http.UnsupportedProtocol, http.InvalidURL)):
        return fault.no_connection(error)
    if isinstance(error, http.TimeoutException):
        return fault.silent(limits.silence)
    if isinstance(error, http.HTTPError):
        return fault.lost(error)
    return None


def field(thing: Any, name: str) -> Any:
    """Return a field of a library's result, which may be any object, a dict, or None."""
    return thing.get(name) if isinstance(thing, dict) else getattr(thing, name, None)


def entries(thing: Any, name: str) -> list[Any]:
    """Return a field that should be a list; empty if it is anything else."""
    found = field(thing, name)
    return found if isinstance(found, list) else []


def word(thing: Any, name: str) -> str:
    """Return a field that should be text; empty if it is anything else."""
    found = field(thing, name)
    return found if isinstance(found, str) else ""


def count(thing: Any, *names: str) -> int:
    """Return the sum of these numbers; -1 if none of them is present."""
    numbers = [number for name in names if isinstance(number := field(thing, name), int)]
    return sum(numbers) if numbers else -1


class _PartialCall(msgspec.Struct):
    id: str = ""
    name: str = ""
    arguments: str = ""
    given: dict[str, Any] | None = None


class CallList:
    """The calls of one answer, in the order in which they began."""

    def __init__(self, names: dict[str, str]) -> None:
        self._names = names  # from the model's names of our tools to ours
        self._begun: list[_PartialCall] = []
        self._at: dict[Any, _PartialCall] = {}

    def add(self, index: Any, call_id: str, name: str, arguments: str | dict[str, Any]) -> None:
        """Add a piece of the call at an index. A new id at the same index is a new call: some servers count wrong."""
        call = self._at.get(index)
        if call is None or (call_id and call.id and call_id != call.id):
            call = self._at[index] = _PartialCall()
            self._begun.append(call)
        call.id = call.id or call_id
        call.name = call.name or name
        if isinstance(arguments, dict):
            call.given = arguments
        else:
            call.arguments += arguments

    def made(self) -> list[CallRequest]:
        """Return all calls. One without an id gets one; `broken` holds arguments that are not a JSON object."""
        return [self._whole(call) for call in self._begun]

    def _whole(self, call: _PartialCall) -> CallRequest:
        key = call.id or f"call_{os.urandom(8).hex()}"
        name = self._names.get(call.name, call.name)
        try:
            value = json.loads(call.arguments) if call.arguments.strip() else call.given or {}
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, dict):
            return CallRequest(key, name, {}, broken=call.arguments)
        return CallRequest(key, name, value)


_SECONDS = 1.0
_LARGEST = 2_000_000
# Models that return vectors or sound, not text.
_NOT_FOR_CHAT = ("embed", "bge-", "minilm", "whisper", "tts", "rerank", "dall-e", "moderation", "image")


def first_model(url: str, key: str = "") -> str:
    """Return the first listed model that can chat; empty if the server does not answer."""
    names = [name for name in models(url, key) if not any(part in name.lower() for part in _NOT_FOR_CHAT)]
    return names[0] if names else ""


def models(url: str, key: str = "") -> list[str]:
    """Return the models listed at an address (`data` as OpenAI, `models` as Ollama); empty if it does not answer."""
    try:
        request = urllib.request.Request(url, headers={"Authorization": f"Bearer {key}"} if key else {})
        with opener(url).open(request, timeout=_SECONDS) as answer:
            found = json.loads(answer.read(_LARGEST))
    except HTTPError as error:
        error.close()  # it holds the connection
        return []
    except (URLError, OSError, ValueError, http.client.HTTPException):
        return []
    listed = (found.get("data") or found.get("models")) if isinstance(found, dict) else None
    entries = [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []
    names = [entry.get("id") or entry.get("name") for entry in entries]
    return [name for name in names if isinstance(name, str)]


DEFAULT = 128_000

# The first matching prefix decides, so longer ones come first.
_SIZES = (
    ("gpt-4.1", 1_047_576),
    ("gpt-4o", 128_000),
    ("gpt-4-turbo", 128_000),
    ("gpt-4-32k", 32_768),
    ("gpt-4", 8_192),
    ("gpt-3.5", 16_385),
    ("gpt-5", 272_000),
    ("o1", 200_000),
    ("o3", 200_000),
    ("o4", 200_000),
    ("claude", 200_000),
    ("gemini-1.5-pro", 2_097_152),
    ("gemini", 1_048_576),
    ("gemma2", 8_192),
    ("gemma", 128_000),
    ("llama3.1", 131_072),
    ("llama3.2", 131_072),
    ("llama3.3", 131_072),
    ("llama3", 8_192),
    ("llama2", 4_096),
    ("mistral", 32_768),
    ("mixtral", 32_768),
    ("qwen3", 40_960),
    ("qwen", 32_768),
    ("phi3", 128_000),
    ("deepseek", 128_000),
)


def context_of(name: str, default: int = DEFAULT) -> int:
    """Return the context size of a model by its own name (`gpt-4o-mini`, `library/llama3:8b`), without the provider."""
    own = name.rsplit("/", 1)[-1].lower()
    return next((size for beginning, size in _SIZES if own.startswith(beginning)), default)
