"""What the API providers share: asking again, cutting, cancelling, and errors in our words.

A provider opens a stream of its library's chunks (`_open`) and turns them into events (`_events`), which is pure.
Everything that a library raises is caught between the two, in `_guarded`, and nowhere else.
"""

from __future__ import annotations

import random
import threading
import weakref
from collections.abc import Generator, Iterator
from importlib import import_module
from typing import Any, NoReturn

from cortext.errors import CortextError, ModelCut, NoModel, install_hint
from cortext.llm import connection
from cortext.llm.base import Event, Note, Request
from cortext.llm.connection import Gathered, Limits, Wire
from cortext.llm.faults import Failed, Fault

# What a library may raise on an answer that is not what it expects, beside its own errors.
_STRANGE = (ValueError, TypeError, AttributeError, LookupError, RecursionError, AssertionError)


class Asking:
    """One request under way: may be told to stop from any thread."""

    def __init__(self) -> None:
        self.stopped = threading.Event()


class Provider:
    """A model behind an API. The parts that differ are the methods that raise NotImplementedError."""

    takes_tools = True

    def __init__(self, name: str, context: int, fault: Fault, limits: Limits) -> None:
        self.name, self.context = name, context
        self._fault, self._limits = fault, limits
        self._wire = Wire(limits)
        self._under_way: Gathered[Asking] = Gathered()

    def stream(self, request: Request) -> Iterator[Event]:
        """Ask. Known from this moment, so that a `cancel` before the first event counts."""
        asking = Asking()
        self._under_way.add(asking)
        return self._answer(request, asking)

    def cancel(self) -> None:
        """Stop what is under way and break its connection."""
        for asking in self._under_way.all():
            asking.stopped.set()
        self._wire.cut()

    def warm(self) -> None:
        """Import the library and build its client; what is wrong with it is told when it is asked."""
        try:
            self._client()
        except (CortextError, OSError, *_STRANGE):
            pass

    def _http(self, module: str, url: str) -> Any:
        """A client of httpx or httpx2 for that address; its connections are closed when this model is let go."""
        made = library(self.name, module).Client(**connection.options(self._wire, url))
        weakref.finalize(self, made.close)
        return made

    # ── what a provider brings ───────────────────────────────────────────────────────────────────────

    def _client(self) -> Any:
        raise NotImplementedError

    def _open(self, request: Request) -> Generator[Any, None, None]:
        """Ask the library; its chunks. Closing the generator closes the connection."""
        raise NotImplementedError

    def _events(self, request: Request, chunks: Iterator[Any]) -> Iterator[Event]:
        """Our events, Done last. A stream that ends too soon raises `self._fault.unfinished()`."""
        raise NotImplementedError

    def _foreign(self) -> tuple[type[BaseException], ...]:
        """The roots of the library's exceptions."""
        raise NotImplementedError

    def _failed(self, error: BaseException) -> Failed:
        """One of those in our words."""
        raise NotImplementedError

    def _yields(self, failed: Failed) -> bool:
        """Whether the request was changed so that the server will take it now (an option that it does not know)."""
        return False

    # ── the one policy ───────────────────────────────────────────────────────────────────────────────

    def _answer(self, request: Request, asking: Asking) -> Iterator[Event]:
        attempt = 0
        while True:
            said = False
            chunks = self._guarded(request, asking)
            try:
                for event in self._events(request, chunks):
                    said = True
                    yield event
                return
            except Failed as failed:
                trouble = failed
            finally:
                chunks.close()
            # Once a word was said nothing is asked again: it would be said twice.
            if said:
                raise self._fault.cut(trouble) from None
            if self._yields(trouble):
                continue
            wait = self._wait(trouble, attempt)
            attempt += 1
            yield Note(f"{trouble.error.message}: trying again in {wait:.0f} s ({attempt} of {self._limits.retries})")
            if asking.stopped.wait(wait):
                raise self._fault.stopped()

    def _wait(self, trouble: Failed, attempt: int) -> float:
        """How long to wait before asking again; raises where that would not help."""
        if not trouble.again or attempt >= self._limits.retries:
            raise trouble.error from None
        if trouble.wait is None:
            # The jitter keeps many who were turned away together from coming back together.
            return float(min(self._limits.pause * 2**attempt, self._limits.longest_pause) * random.uniform(0.75, 1.25))
        if trouble.wait > self._limits.longest_pause:
            error = trouble.error
            error.hint = f"it asks to wait {trouble.wait:.0f} s; send it again then, or use another --model"
            raise error from None
        return trouble.wait

    def _guarded(self, request: Request, asking: Asking) -> Generator[Any, None, None]:
        """The library's chunks; whatever it raises becomes `Failed`, or ModelCut if we were told to stop."""
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

    def _give_up(self, asking: Asking, failed: Failed) -> NoReturn:
        # Our own cut shows as some error of the connection: it is not the news.
        if asking.stopped.is_set():
            raise self._fault.stopped() from None
        raise failed from None


def need_key(name: str, key: str, needs: str) -> None:
    """Say at once that a key is missing, before anything is sent."""
    if not key:
        raise NoModel(f"there is no key for {name}", kept="nothing was sent", hint=needs)


def library(name: str, module: str) -> Any:
    """A client library, or how to get it."""
    try:
        return import_module(module)
    except ImportError as error:
        raise NoModel(
            f"{name} needs the library {module}, which cannot be loaded ({error})",
            kept="nothing was sent",
            hint=install_hint("models"),
        ) from error


def http_failed(fault: Fault, http: Any, error: BaseException, limits: Limits) -> Failed | None:
    """An error of httpx (or httpx2) in our words; None if it is not one."""
    if isinstance(error, (http.ConnectError, http.ConnectTimeout, http.UnsupportedProtocol, http.InvalidURL)):
        return fault.no_connection(error)
    if isinstance(error, http.TimeoutException):
        return fault.silent(limits.silence)
    if isinstance(error, http.HTTPError):
        return fault.lost(error)
    return None


def field(thing: Any, name: str) -> Any:
    """A field of what a library made, which may be a stranger's object, a dict, or nothing at all."""
    return thing.get(name) if isinstance(thing, dict) else getattr(thing, name, None)


def entries(thing: Any, name: str) -> list[Any]:
    """A field that should be a list; none where it is anything else."""
    found = field(thing, name)
    return found if isinstance(found, list) else []


def word(thing: Any, name: str) -> str:
    """A field that should be a text; empty where it is anything else."""
    found = field(thing, name)
    return found if isinstance(found, str) else ""


def count(thing: Any, *names: str) -> int:
    """The sum of those numbers; -1 where none of them is told."""
    told = [number for name in names if isinstance(number := field(thing, name), int)]
    return sum(told) if told else -1
