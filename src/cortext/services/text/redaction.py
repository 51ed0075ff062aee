"""Redaction for what is given away: folders, names and words of one's choice, replaced everywhere and counted."""

from __future__ import annotations

import os
import pwd
import re
import socket
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from cortext.errors import UsageError
from cortext.model.message import Message
from cortext.model.session import Session
from cortext.services.text.masking import change_struct

PATHS, NAMES = "paths", "names"
LEAST = 3  # characters of a word: shorter ones are part of too many others
_IN_HOME = r"(?:/home|/Users|C:\\Users)[/\\][\w.-]+"


class Redaction:
    """Some rules: `paths` (home folders become ~), `names` (this user, this machine), or a text to remove."""

    def __init__(self, rules: Sequence[str], folder: str = "") -> None:
        self.counts: Counter[str] = Counter()
        self._rules: list[tuple[str, re.Pattern[str], str]] = []
        for rule in rules:
            if rule == PATHS:
                known = sorted({os.path.expanduser("~"), folder} - {"", "/"}, key=len, reverse=True)
                self._add(PATHS, "|".join([*map(re.escape, known), _IN_HOME]), "~")
            elif rule == NAMES:
                words = sorted({word for word in _own_names() if len(word) >= LEAST}, key=len, reverse=True)
                self._add(NAMES, "|".join(rf"\b{re.escape(word)}\b" for word in words), "[name]")
            elif len(rule.strip()) < LEAST:
                raise UsageError(f"{rule!r} is too short to redact", hint=f"use at least {LEAST} characters")
            else:
                self._add(rule, re.escape(rule.strip()), "[redacted]")

    def _add(self, name: str, pattern: str, by: str) -> None:
        if pattern:
            self._rules.append((name, re.compile(pattern, re.IGNORECASE), by))

    def text(self, text: str) -> str:
        """Return a text with the rules applied."""
        for name, pattern, by in self._rules:
            text, count = pattern.subn(by, text)
            self.counts[name] += count
        return text

    def session(self, session: Session) -> Session:
        """Return a session with the rules applied to every text in it."""
        return change_struct(replace(session, path="", store=""), self.text)  # where it is kept is nobody's business

    def messages(self, messages: Iterable[Message]) -> Iterator[Message]:
        """Yield messages with the rules applied to every text in them."""
        for message in messages:
            # What a message is called is not what it says: a user may be called "user".
            kept = {name: getattr(message, name) for name in ("id", "parent", "role", "timestamp")}
            yield replace(change_struct(message, self.text), **kept)


def _own_names() -> Iterator[str]:
    """Yield the names of this user and of this machine."""
    yield os.path.basename(os.path.expanduser("~"))
    yield socket.gethostname()
    try:
        entry = pwd.getpwuid(os.getuid())
    except KeyError:
        return
    yield entry.pw_name
    yield entry.pw_gecos.partition(",")[0]
