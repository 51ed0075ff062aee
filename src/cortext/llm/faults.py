"""What goes wrong with a model, in our words: one mapping for all providers.

401 403              ModelRefused       the key
404                  ModelRefused       the name
400 413 422 …        ModelRefused       the request
429 503 529 500 502  ModelBusy          tried again first
408 504, no answer   ModelUnreachable   a lost connection is tried again, a silent server is not
after the first word ModelCut           whatever it was
"""

from __future__ import annotations

import re
import time
from email.utils import parsedate_to_datetime

from cortext.errors import ModelBusy, ModelCut, ModelError, ModelRefused, ModelUnreachable
from cortext.safety.secrets.masking import mask

_LONGEST = 400
KEPT = "the conversation is kept as it was"
KEPT_PART = "what came until then is kept, and marked as cut off"

_STATUS = re.compile(r"\b(400|401|403|404|408|413|422|429|50[0-4]|529)\b")
_SIGNED_OUT = ("not logged in", "/login", "please log in", "sign in", "auth method", "authenticat", "api key")
# Words of a 429 that no waiting mends.
_NO_CREDIT = ("insufficient_quota", "credit balance", "billing", "exceeded your current quota")


class Failed(Exception):
    """A request that failed: the error to raise, whether asking again may help, and the wait asked for."""

    def __init__(self, error: ModelError, *, again: bool = False, wait: float | None = None) -> None:
        super().__init__(error.message)
        self.error, self.again, self.wait = error, again, wait


class Fault:
    """Makes the errors of one model: knows its name, what to do about its key, and what must never be shown."""

    def __init__(self, name: str, *, place: str = "", key_hint: str = "", secret: str = "") -> None:
        self.name, self._key_hint = name, key_hint
        # An address may hold a password before the @, and a key behind the ?.
        place = place.partition("?")[0]
        self.place = mask(f"{place.partition('://')[0]}://{place.rpartition('@')[2]}" if "@" in place else place).text
        self._secret = secret

    def words(self, said: object) -> str:
        """What a server said, short, on one line, without our key or any other secret."""
        text = " ".join(str(said or "").split())
        if self._secret:
            text = text.replace(self._secret, "[masked key]")
        text = mask(text[: _LONGEST * 4]).text
        return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"

    def status(self, status: int, said: object = "", *, wait: float | None = None) -> Failed:
        """An answer with an HTTP status that is no success."""
        words = self.words(said) or f"HTTP {status}"
        if status in (401, 403):
            return Failed(self._refused(f"the key was not accepted: {words}", self._key_hint))
        if status == 404:
            return Failed(
                self._refused(f"no such model there: {words}", "name another with --model, or look at the address")
            )
        if status == 429 and any(word in words.lower() for word in _NO_CREDIT):
            return Failed(self._refused(f"no credit left: {words}", "see to the account, or use another --model"))
        if status in (408, 504):
            return Failed(self._unreachable(f"no answer in time: {words}"), again=True, wait=wait)
        if status == 429 or status >= 500:
            what = "rate limit" if status == 429 else "overloaded" if status in (503, 529) else "trouble there"
            return Failed(self.busy(f"{what}: {words}"), again=True, wait=wait)
        hint = "the conversation may be too long for this model" if status == 413 or _too_long(words) else ""
        return Failed(self._refused(f"the request was not accepted: {words}", hint or "see what it says about it"))

    def busy(self, what: str) -> ModelBusy:
        """Rate limit or overload."""
        return ModelBusy(
            f"{self.name}: {what}", kept=KEPT, hint="wait a little and send it again, or use another --model"
        )

    def no_connection(self, said: object = "") -> Failed:
        """Nothing listens there, or the name is unknown."""
        words = self.words(said)
        return Failed(self._unreachable("no connection" + (f": {words}" if words else "")))

    def lost(self, said: object = "") -> Failed:
        """The connection broke before the first word."""
        words = self.words(said)
        error = self._unreachable("the connection was lost" + (f": {words}" if words else ""))
        return Failed(error, again=True)

    def silent(self, seconds: float) -> Failed:
        """Nothing came for too long."""
        return Failed(self._unreachable(f"no answer for {seconds:g} s"))

    def garbled(self, said: object = "") -> Failed:
        """What came is not what this provider's protocol says."""
        words = self.words(said)
        message = f"{self.name}: the answer could not be understood" + (f": {words}" if words else "")
        return Failed(ModelCut(message, kept=KEPT, hint="send it again; if it stays, the endpoint may be another kind"))

    def unfinished(self) -> Failed:
        """The stream ended without saying that it was the end."""
        hint = "send it again; if it stays so, the address may be that of something else"
        return Failed(ModelCut(f"{self.name}: the answer broke off", kept=KEPT, hint=hint), again=True)

    def program(self, said: object, status: int = 0) -> Failed:
        """A program that ended without an answer: its words have to tell what kind of trouble it was."""
        words = self.words(said)
        found = _STATUS.search(words)
        if any(sign in words.lower() for sign in _SIGNED_OUT):
            status = 401
        if status or found:
            return self.status(status or int(found.group() if found else 0), words)
        return Failed(self._unreachable(f"there was no answer: {words or 'it did not say why'}"))

    def cut(self, failed: Failed) -> ModelCut:
        """The same trouble after the first word came."""
        what = failed.error.message.removeprefix(f"{self.name}: ")
        why = "" if what == "the answer broke off" else f" ({what})"
        return ModelCut(f"{self.name}: the answer broke off{why}", kept=KEPT_PART, hint="send it again")

    def stopped(self) -> ModelCut:
        """The user (or the caller) stopped it."""
        return ModelCut(f"{self.name}: stopped", kept=KEPT_PART, hint="send it again, or something else")

    def _refused(self, what: str, hint: str) -> ModelRefused:
        return ModelRefused(f"{self.name}: {what}", kept=KEPT, hint=hint)

    def _unreachable(self, what: str) -> ModelUnreachable:
        where = f" ({self.place})" if self.place else ""
        return ModelUnreachable(
            f"{self.name}: {what}{where}", kept=KEPT, hint="look at the network, then send it again"
        )


def _too_long(words: str) -> bool:
    lowered = words.lower()
    return any(sign in lowered for sign in ("context length", "context_length", "too long", "maximum context"))


def retry_after(value: str | None) -> float | None:
    """The seconds of a Retry-After header: a number, or a date."""
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
