"""Redaction for what is given away: folders, names and words of one's choice, replaced everywhere and counted."""

from __future__ import annotations

import os
import pwd
import re
import socket
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from urllib.parse import quote

from msgspec.structs import replace

from cortext.errors import UsageError
from cortext.model.ids import slug
from cortext.model.message import Message
from cortext.model.session import Session
from cortext.services.text.message_masking import change_struct

PATHS, NAMES = "paths", "names"
LEAST = 3  # characters of a word: shorter ones are part of too many others

# Folders are also written with doubled backslashes (in JSON), encoded (in addresses), and with dashes for everything
# that is not a letter (as Claude Code names its folders).
_SEPARATOR = r"(?:\\*/|\\+|%2F|%5C)"
_DRIVE = r"(?:/mnt/|/)?\b[a-z](?::|%3A)?"
_USER = r"[\w.-]+"
# A name with spaces ends where the next folder begins.
_WINDOWS_USER = rf"(?:[\w.-]+(?: [\w.-]+){{1,3}}(?=\\)|{_USER})"
_HOMES = (
    rf"{_DRIVE}{_SEPARATOR}Users{_SEPARATOR}{_WINDOWS_USER}",
    rf"(?:/var|/export)?{_SEPARATOR}(?-i:home|Users){_SEPARATOR}{_USER}",
    r"(?<![\w.~-])/root(?![\w-])",
    r"(?<![\w-])(?:[a-z]-)?-(?-i:home|Users)-[^\W_]+",
)
_BETWEEN_WORDS = r"(?:[\s_+-]|%20)+"


class Redaction:
    """Some rules: `paths` (home folders, and these folders, become ~), `names` (this user and machine), or a text."""

    def __init__(self, rules: Sequence[str], folders: Collection[str] = ()) -> None:
        self.counts: Counter[str] = Counter()
        self._rules: list[tuple[str, re.Pattern[str], str]] = []
        for rule in rules:
            if rule == PATHS:
                known = sorted({os.path.expanduser("~"), *folders} - {"", "/"}, key=len, reverse=True)
                self._add(PATHS, [form for folder in known for form in _folder(folder)] + [*_HOMES], "~")
            elif rule == NAMES:
                words = sorted({word for word in _own_names() if len(word) >= LEAST}, key=len, reverse=True)
                self._add(NAMES, [rf"(?<![^\W_])(?:{_written(word)})(?![^\W_])" for word in words], "[name]")
            elif len(rule.strip()) < LEAST:
                raise UsageError(f"{rule!r} is too short to redact", hint=f"use at least {LEAST} characters")
            else:
                self._add(rule, [_written(rule.strip())], "[redacted]")

    def __bool__(self) -> bool:
        return bool(self._rules)

    def _add(self, name: str, patterns: Sequence[str], by: str) -> None:
        if patterns:
            self._rules.append((name, re.compile("|".join(patterns), re.IGNORECASE), by))

    def text(self, text: str) -> str:
        """Return a text with the rules applied."""
        for name, pattern, by in self._rules:
            text, count = pattern.subn(by, text)
            self.counts[name] += count
        return text

    def session(self, session: Session) -> Session:
        """Return a session with the rules applied to every text in it.

        With rules it has no id: that is made of the title, and may contain a part of what is redacted.
        """
        kept = replace(session, path="", store="")  # where it is kept is nobody's business
        return change_struct(replace(kept, id="") if self else kept, self.text)

    def messages(self, messages: Iterable[Message]) -> Iterator[Message]:
        """Yield messages with the rules applied to every text in them."""
        for message in messages:
            # What a message is called is not what it says: a user may be called "user".
            kept = {name: getattr(message, name) for name in ("id", "parent", "role", "timestamp")}
            yield replace(change_struct(message, self.text), **kept)


def _folder(path: str) -> Iterator[str]:
    """Yield patterns for the forms in which a folder is written."""
    yield rf"{re.escape(path)}(?![\w-])"
    if quote(path) != path:
        yield rf"{re.escape(quote(path))}(?![\w-])"
    yield rf"{re.escape(quote(path, safe=''))}(?![\w-])"
    yield rf"(?<![\w-]){re.escape(re.sub(r'[^A-Za-z0-9]', '-', path))}(?![^\W_])"


def _written(text: str) -> str:
    """Return a pattern for the forms in which a name is written: as it is, and with other characters between words.

    As part of an id, its letters have no accents either.
    """
    forms = {text, *(unicodedata.normalize(form, text) for form in ("NFC", "NFD"))}
    plain = slug(text, longest=4 * len(text))
    if sum(map(str.isalnum, plain)) >= sum(map(str.isalnum, text)):  # else it is only a part of the name
        forms.add(plain)
    patterns = {_BETWEEN_WORDS.join(map(re.escape, filter(None, re.split(r"[\s_+-]+", form)))) for form in forms}
    return "|".join(sorted(filter(None, patterns), key=len, reverse=True)) or re.escape(text)


def _own_names() -> Iterator[str]:
    """Yield the names of this user and of this machine."""
    yield os.path.basename(os.path.expanduser("~"))
    yield socket.gethostname()
    yield socket.gethostname().partition(".")[0]
    try:
        entry = pwd.getpwuid(os.getuid())
    except KeyError:
        return
    yield entry.pw_name
    yield entry.pw_gecos.partition(",")[0]
