"""The files that a conversation touched, and the identifiers that are likely to be needed.

A name is a word that only code has (`snake_case`, `camelCase`, `PascalCase` of two words, `UPPER_CASE`), a ticket
(`ABC-12`), or a single name between backticks. It belongs to the file in which it was seen last.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from cortext.model.message import ASSISTANT, USER, Message
from cortext.services.digest.calls import (
    CHANGED,
    CREATED,
    DELETED,
    READ,
    ToolCall,
    beginning,
    decoded,
    stands_in,
    strings_in,
)

HALF_LIFE = 100  # messages after which a mention or a use counts half
LONGEST = 10_000  # characters of a text that are searched
_AROUND = "`'\"()[]{}<>,;*|"  # what may stand around a path
_NAMED = re.compile(r"(?:/|~/|\.{1,2}/)?(?:[\w@.-]+/)+[\w@-][\w.@-]*\.[A-Za-z]\w{0,5}")
_QUOTED_FILE = re.compile(r"`([\w@-]+\.[a-z]\w{0,5})`")
_SHORTEST_ROOT = 3  # names in a folder that is worth being left out: /home/user/project

# What one use counts: in the words of the user or the model, in the input of a tool call, in what the tool answered.
SAID, CALLED, ANSWERED = 1.0, 1.0, 0.3

# A whole word: no rest of one that has a digit, an accent or an escaped letter beside it, and not after a backslash.
_WORD = re.compile("(?<![\\w\\\\\u0300-\u036f])[^\\W\\d]\\w{3,}+(?![\u0300-\u036f]|\\\\(?:u|\\Z))")
_COMPOUND = re.compile(r"[A-Za-z0-9]_+[A-Za-z0-9]|[a-z0-9][A-Z]|[A-Z]{2}[a-z]{2}")
_TICKET = re.compile(r"\b[A-Z]{2,10}-\d+\b")
_QUOTED_NAME = re.compile(r"`([A-Za-z_]\w*(?:(?:\.|::|->)[A-Za-z_]\w*)*)(\(\))?`")
_FILE = re.compile(r"\.[a-z]{1,5}$")
_HUMP = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_RANDOM = 2.5  # letters in each hump of a word, at most, if it was drawn at random and not thought of
_LONGEST_NAME = 60
# What a model puts between backticks without naming anything.
_LITERALS = frozenset(
    re.findall(
        r"\w+",
        "true false null none nil undefined void string int integer float bool boolean error errors self this main"
        " return const let var func function def class type struct interface import export default async await",
    )
)


class FileTally(NamedTuple):
    """A file, the last known state of it, how often it was used, and the index of the message that used it last."""

    path: str
    state: str
    times: int
    at: int


def used_files(calls: Sequence[ToolCall]) -> list[FileTally]:
    """Return the files that these calls used, the last used first."""
    uses = [(as_named(path), state, call.at) for call in calls for path, state in call.files]
    whole = whole_paths({path for path, _, _ in uses})
    found: dict[str, FileTally] = {}
    for path, state, index in uses:
        path = whole.get(path, path)
        before = found.pop(path, None)
        known = before.state if before else READ
        found[path] = FileTally(path, _after(known, state), before.times + 1 if before else 1, index)
    return list(reversed(found.values()))


def as_named(path: str) -> str:
    """Return a path without needless pieces such as `./`, unless it would be one that stood nowhere."""
    plain = os.path.normpath(path)
    return plain if stands_in(path, plain) else path


def whole_paths(paths: Iterable[str]) -> dict[str, str]:
    """Return the absolute path, among these, that an end of it stands for, unless it could be two.

    Tools name the same file by its path and, in commands, from the folder that they are in.
    """
    named: dict[str, list[str]] = {}
    for path in paths:
        for ending in endings(path) if os.path.isabs(path) else ():
            named.setdefault(ending, []).append(path)
    return {ending: found[0] for ending, found in named.items() if len(found) == 1}


def endings(path: str) -> list[str]:
    """Return every end of a path that begins with a name: `a/b.py` has `a/b.py` and `b.py`."""
    names = path.strip("/").split("/")
    return ["/".join(names[index:]) for index in range(len(names))]


def _after(known: str, state: str) -> str:
    """Return the state of a file after another use: a file that was created here and then edited is still new."""
    if state == READ:
        return known if known != DELETED else READ
    return CREATED if known == CREATED and state == CHANGED else state


def mentioned(messages: Sequence[Message], calls: Sequence[ToolCall], root: str = "") -> list[str]:
    """Return the files that were only named, in a text or a result, relative to the root: often and lately first."""
    weights: dict[str, float] = {}

    def note(text: str, index: int) -> None:
        text = decoded(beginning(text, LONGEST))
        chunks = {chunk for chunk in text.split() if "/" in chunk} if "/" in text else ()
        words = {chunk.strip(_AROUND).partition(":")[0].rstrip(".") for chunk in chunks}  # as in `a/b.py:12:`
        quoted = _QUOTED_FILE.findall(text) if "`" in text else ()
        for found in {word for word in words if _NAMED.fullmatch(word)} | set(quoted):
            path = relative(as_named(found), root)
            if not stands_in(text, path):
                continue
            weights[path] = weights.get(path, 0.0) + 0.5 ** ((len(messages) - index) / HALF_LIFE)

    for index, message in enumerate(messages):
        if message.role in (USER, ASSISTANT) and message.content:
            note(message.content, index)
    for call in calls:
        if call.result is not None:
            note(call.result.output, call.at)
    return sorted(weights, key=lambda path: (-weights[path], path))


def common_root(paths: Sequence[str]) -> str:
    """Return the folder that most of the absolute paths are in; empty if it is not worth naming."""
    absolute = [os.path.dirname(path) for path in paths if os.path.isabs(path)]
    if len(absolute) < 2:
        return ""
    # A few files elsewhere (a temporary one, one of the user's home) must not shorten the root to nothing.
    counts: dict[str, int] = {}
    for folder in absolute:
        while folder.count("/") >= _SHORTEST_ROOT:
            counts[folder] = counts.get(folder, 0) + 1
            folder = os.path.dirname(folder)
    most = [folder for folder, count in counts.items() if 4 * count >= 3 * len(absolute)]
    return max(most, key=len, default="")


def relative(path: str, root: str) -> str:
    """Return a path as it is shown: from the root if it is in there."""
    return path[len(root) + 1 :] if root and path.startswith(f"{root}/") else path


class Identifier(NamedTuple):
    """A name, how likely it is to be needed, the file in which it was seen last (or none), and a text that has it."""

    word: str
    weight: float
    path: str
    text: str


def ranked(messages: Sequence[Message], calls: Sequence[ToolCall]) -> list[Identifier]:
    """Return the names in these messages and calls, the likeliest to be needed first."""
    weights: dict[str, float] = {}
    places: dict[str, str] = {}
    texts: dict[str, str] = {}
    newest = len(messages)

    def note(words: Iterable[str], text: str, worth: float, index: int, path: str = "") -> None:
        worth *= 0.5 ** ((newest - index) / HALF_LIFE)
        for word in words:
            texts[word] = text
            weights[word] = weights.get(word, 0.0) + worth
            if path:
                places[word] = path

    for index, message in enumerate(messages):
        if message.role in (USER, ASSISTANT) and message.content:
            text = decoded(beginning(message.content, LONGEST))
            note(names_in(text) | set(_TICKET.findall(text)) | _quoted(text), text, SAID, index)
    for call in calls:
        path = as_named(call.files[0].path) if len(call.files) == 1 else ""
        if call.result is not None and not call.failed:
            answered = decoded(beginning(call.result.output, LONGEST))
            note(names_in(answered), answered, ANSWERED, call.at, path)
        text = decoded(beginning("\n".join(strings_in(call.part.input)), LONGEST))
        note(names_in(text), text, CALLED, call.at, path)
    for call in calls:
        weights.pop(call.part.name, None)  # what a model calls its tools is known to the next one
    best = sorted(weights, key=lambda word: (-weights[word], word))
    return [Identifier(word, weights[word], places.get(word, ""), texts[word]) for word in best]


def names_in(text: str) -> set[str]:
    """Return the words of a decoded text that only code has."""
    found: set[str] = set()
    for chunk in set(text.split()):
        if not (chunk.isalpha() and (chunk.islower() or chunk.istitle())):  # most are plain words
            found.update(_names_in_chunk(chunk))
    return found


@lru_cache(maxsize=1 << 16)
def _names_in_chunk(chunk: str) -> tuple[str, ...]:
    return tuple(filter(_is_name, _WORD.findall(chunk)))


def _is_name(word: str) -> bool:
    """Whether a word is a compound, neither too long for a name nor a piece of an id or a key."""
    if not _COMPOUND.search(word) or len(word) > _LONGEST_NAME:
        return False
    return len(word) < 10 or len(word) > _RANDOM * len(_HUMP.findall(word))


def _quoted(text: str) -> set[str]:
    """Return the single names between backticks: called, dotted, or with a capital letter."""
    if "`" not in text:
        return set()
    return {
        name
        for name, called in _QUOTED_NAME.findall(text)
        if (called or not name.islower() or "::" in name)
        and 3 < len(name) <= _LONGEST_NAME
        and name.lower() not in _LITERALS
        and (called or not _FILE.search(name))
    }
