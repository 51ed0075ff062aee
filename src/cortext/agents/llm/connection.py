"""A provider's HTTP connections: timeouts, cutting them from another thread, and what can go wrong with them.

Closing a socket does not wake a thread that reads from it; shutting it down does. So every socket that a client opens
is recorded, through the `trace` extension of httpx (and of its sibling httpx2). One mapping to our errors serves all
providers:

401 403              ModelRefused       the key
404                  ModelRefused       the name
400 413 422 …        ModelRefused       the request
429 503 529 500 502  ModelBusy          after retries
408 504, no answer   ModelUnreachable   a lost connection is retried, a silent server is not
after the first text ModelCut           whatever it was
"""

from __future__ import annotations

import re
import socket
import ssl
import threading
import time
import weakref
from email.utils import parsedate_to_datetime
from typing import Any, Generic, TypeVar

import msgspec

from cortext.errors import ModelBusy, ModelCut, ModelError, ModelRefused, ModelUnreachable
from cortext.io.http import is_loopback
from cortext.model.wording import cut
from cortext.safety.secrets.masking import mask


class ModelLimits(msgspec.Struct, frozen=True):
    """How long a model may take, and how often a request is retried. Seconds."""

    connect: float = 10.0
    silence: float = 120.0  # between two pieces of an answer
    retries: int = 3
    pause: float = 1.0  # before the first retry; doubled each time
    longest_pause: float = 60.0  # if a server asks for more, an error is raised instead
    streaming: bool = True


Thing = TypeVar("Thing")


class WeakItems(Generic[Thing]):
    """A set of things that exist as long as someone uses them; thread-safe."""

    def __init__(self) -> None:
        self._things: weakref.WeakSet[Thing] = weakref.WeakSet()
        self._guard = threading.Lock()

    def add(self, thing: Thing) -> None:
        """Add one."""
        with self._guard:
            self._things.add(thing)

    def all(self) -> list[Thing]:
        """Return those that exist now."""
        with self._guard:
            return list(self._things)


class Wire:
    """The connections of one client: its timeouts and its open sockets."""

    def __init__(self, limits: ModelLimits) -> None:
        self._sockets: WeakItems[socket.socket] = WeakItems()
        waits = {"connect": limits.connect, "pool": limits.connect, "read": limits.silence, "write": limits.silence}
        self._extensions = {"trace": self._note, "timeout": waits}

    def hooks(self) -> dict[str, list[Any]]:
        """Return the client's `event_hooks`: every request gets our timeouts and reports its socket to us."""
        return {"request": [self._watch]}

    def cut(self) -> None:
        """Break every connection now."""
        for found in self._sockets.all():
            try:
                found.shutdown(socket.SHUT_RDWR)
            except (OSError, ValueError):  # already closed
                pass

    def _watch(self, request: Any) -> None:
        # The libraries set timeouts of their own, and one of them none at all: ours win.
        request.extensions = {**request.extensions, **self._extensions}

    def _note(self, event: str, info: dict[str, Any]) -> None:
        if event.endswith((".connect_tcp.complete", ".start_tls.complete", ".connect_unix_socket.complete")):
            found = info["return_value"].get_extra_info("socket")
            if isinstance(found, socket.socket):
                self._sockets.add(found)


def options(wire: Wire, url: str) -> dict[str, Any]:
    """Return the options of an httpx (or httpx2) client for that address: watched by `wire`, without redirects.

    A key is sent where the user said and nowhere else. No proxy is used for addresses on this machine.
    """
    here = is_loopback(url)
    found: dict[str, Any] = {"event_hooks": wire.hooks(), "follow_redirects": False, "trust_env": not here}
    if here and url.startswith("http:"):
        # Loading the system's certificates takes a tenth of a second. This context trusts none of them.
        found["verify"] = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    return found


_LONGEST = 400
KEPT = "the conversation, unchanged"
KEPT_PART = "what arrived so far, marked as cut off"

_STATUS = re.compile(r"\b(400|401|403|404|408|413|422|429|50[0-4]|529)\b")
_SIGNED_OUT = ("not logged in", "/login", "please log in", "sign in", "auth method", "authenticat", "api key")
# Phrases in a 429 that waiting does not help with.
_NO_CREDIT = ("insufficient_quota", "credit balance", "billing", "exceeded your current quota")


class RequestFailure(Exception):
    """A failed request: the error to raise, whether a retry may help, and the requested wait."""

    def __init__(self, error: ModelError, *, again: bool = False, wait: float | None = None) -> None:
        super().__init__(error.message)
        self.error, self.again, self.wait = error, again, wait


class Fault:
    """Creates the errors of one model: knows its name, how to fix its key, and what must never be shown."""

    def __init__(self, name: str, *, place: str = "", key_hint: str = "", secret: str = "") -> None:
        self.name, self._key_hint = name, key_hint
        # An address may contain a password before the @ and a key after the ?.
        place = place.partition("?")[0]
        self.place = mask(f"{place.partition('://')[0]}://{place.rpartition('@')[2]}" if "@" in place else place).text
        self._secret = secret

    def words(self, said: object) -> str:
        """Return what a server said, shortened, on one line, without our key or any other secret."""
        text = " ".join(str(said or "").split())
        if self._secret:
            text = text.replace(self._secret, "[masked key]")
        return cut(mask(text[: _LONGEST * 4]).text, _LONGEST)

    def status(self, status: int, said: object = "", *, wait: float | None = None) -> RequestFailure:
        """Return the failure for an unsuccessful HTTP status."""
        words = self.words(said) or f"HTTP {status}"
        if status in (401, 403):
            return RequestFailure(self._refused(f"the key was not accepted: {words}", self._key_hint))
        if status == 404:
            return RequestFailure(
                self._refused(f"no such model there: {words}", "name another with --model, or check the address")
            )
        if status == 429 and any(word in words.lower() for word in _NO_CREDIT):
            return RequestFailure(
                self._refused(f"no credit left: {words}", "check the account, or use another --model")
            )
        if status in (408, 504):
            return RequestFailure(self._unreachable(f"no answer in time: {words}"), again=True, wait=wait)
        if status == 429 or status >= 500:
            what = "rate limit" if status == 429 else "overloaded" if status in (503, 529) else "server error"
            return RequestFailure(self.busy(f"{what}: {words}"), again=True, wait=wait)
        hint = "the conversation may be too long for this model" if status == 413 or _too_long(words) else ""
        return RequestFailure(
            self._refused(f"the request was not accepted: {words}", hint or "see the message for the reason")
        )

    def busy(self, what: str) -> ModelBusy:
        """Return the error for a rate limit or overload."""
        return ModelBusy(
            f"{self.name}: {what}", kept=KEPT, hint="wait a little and send it again, or use another --model"
        )

    def no_connection(self, said: object = "") -> RequestFailure:
        """Return the failure if nothing listens there or the host is unknown."""
        words = self.words(said)
        return RequestFailure(self._unreachable("no connection" + (f": {words}" if words else "")))

    def lost(self, said: object = "") -> RequestFailure:
        """Return the failure if the connection broke before the first text."""
        words = self.words(said)
        error = self._unreachable("the connection was lost" + (f": {words}" if words else ""))
        return RequestFailure(error, again=True)

    def silent(self, seconds: float) -> RequestFailure:
        """Return the failure if nothing arrived for too long."""
        return RequestFailure(self._unreachable(f"no answer for {seconds:g} s"))

    def garbled(self, said: object = "") -> RequestFailure:
        """Return the failure if the answer does not follow this provider's protocol."""
        words = self.words(said)
        message = f"{self.name}: the answer could not be understood" + (f": {words}" if words else "")
        return RequestFailure(
            ModelCut(message, kept=KEPT, hint="send it again; if it persists, check the kind of endpoint")
        )

    def unfinished(self) -> RequestFailure:
        """Return the failure if the stream ended without a final event."""
        hint = "send it again; if it persists, check the address"
        return RequestFailure(ModelCut(f"{self.name}: the answer broke off", kept=KEPT, hint=hint), again=True)

    def program(self, said: object, status: int = 0) -> RequestFailure:
        """Return the failure of a program that ended without an answer, classified by what it printed."""
        words = self.words(said)
        found = _STATUS.search(words)
        if any(phrase in words.lower() for phrase in _SIGNED_OUT):
            status = 401
        if status or found:
            return self.status(status or int(found.group() if found else 0), words)
        return RequestFailure(self._unreachable(f"there was no answer: {words or 'no reason given'}"))

    def cut(self, failed: RequestFailure) -> ModelCut:
        """Return the error if the same happens after the first text has arrived."""
        what = failed.error.message.removeprefix(f"{self.name}: ")
        why = "" if what == "the answer broke off" else f" ({what})"
        return ModelCut(f"{self.name}: the answer broke off{why}", kept=KEPT_PART, hint="send it again")

    def stopped(self) -> ModelCut:
        """Return the error if the user or the caller stopped it."""
        return ModelCut(f"{self.name}: stopped", kept=KEPT_PART, hint="send it again, or something else")

    def _refused(self, what: str, hint: str) -> ModelRefused:
        return ModelRefused(f"{self.name}: {what}", kept=KEPT, hint=hint)

    def _unreachable(self, what: str) -> ModelUnreachable:
        where = f" ({self.place})" if self.place else ""
        return ModelUnreachable(f"{self.name}: {what}{where}", kept=KEPT, hint="check the network, then send it again")


def _too_long(words: str) -> bool:
    lowered = words.lower()
    return any(phrase in lowered for phrase in ("context length", "context_length", "too long", "maximum context"))


def retry_after(value: str | None) -> float | None:
    """Return the seconds of a Retry-After header: a number or a date."""
    if not value:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass

    try:
        return max(0.0, parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, TypeError, OverflowError):
        return None
