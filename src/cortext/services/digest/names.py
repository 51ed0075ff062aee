"""The identifiers that are likely to be needed: those that were used often, and lately.

A name is a word that only code has (`snake_case`, `camelCase`, `PascalCase` of two words, `UPPER_CASE`), a ticket
(`ABC-12`), or a single name between backticks. It belongs to the file in which it was seen last.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import NamedTuple

from cortext.model.message import ASSISTANT, USER, Message
from cortext.services.digest.calls import Call, strings_in
from cortext.services.digest.files import as_named
from cortext.services.digest.words import beginning, decoded

HALF_LIFE = 100  # messages after which the use of a name counts half
LONGEST = 10_000  # characters of a text that are searched
# What one use counts: in the words of the user or the model, in the input of a tool call, in what the tool answered.
SAID, CALLED, ANSWERED = 1.0, 1.0, 0.3

# A whole word: no rest of one that has a digit, an accent or an escaped letter beside it, and not after a backslash.
_WORD = re.compile("(?<![\\w\\\\\u0300-\u036f])[^\\W\\d]\\w{3,}+(?![\u0300-\u036f]|\\\\(?:u|\\Z))")
_COMPOUND = re.compile(r"[A-Za-z0-9]_+[A-Za-z0-9]|[a-z0-9][A-Z]|[A-Z]{2}[a-z]{2}")
_TICKET = re.compile(r"\b[A-Z]{2,10}-\d+\b")
_QUOTED = re.compile(r"`([A-Za-z_]\w*(?:(?:\.|::|->)[A-Za-z_]\w*)*)(\(\))?`")
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


class Name(NamedTuple):
    """A name, how likely it is to be needed, the file in which it was seen last (or none), and a text that has it."""

    word: str
    weight: float
    path: str
    text: str


def ranked(messages: Sequence[Message], calls: Sequence[Call]) -> list[Name]:
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
    return [Name(word, weights[word], places.get(word, ""), texts[word]) for word in best]


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
        for name, called in _QUOTED.findall(text)
        if (called or not name.islower() or "::" in name)
        and 3 < len(name) <= _LONGEST_NAME
        and name.lower() not in _LITERALS
        and (called or not _FILE.search(name))
    }
