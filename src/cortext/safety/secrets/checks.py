"""What must be true of a match beside its pattern: each check of the table of rules, by name."""

from __future__ import annotations

import binascii
import re
from collections.abc import Callable

from cortext.safety.secrets import shapes

Check = Callable[[re.Match[str], str], bool]


def meant(match: re.Match[str], value: str) -> bool:
    """No placeholder."""
    return not shapes.placeholder(value)


def random(match: re.Match[str], value: str) -> bool:
    """No placeholder and not built of words: the prefix could also begin an identifier."""
    return shapes.random_key(value)


def mixed(match: re.Match[str], value: str) -> bool:
    """Small letters, capitals and digits at random."""
    return shapes.mixed_key(value)


def numbered(match: re.Match[str], value: str) -> bool:
    """Digits among letters."""
    return shapes.digits_and_letters(value)


def whole(match: re.Match[str], value: str) -> bool:
    """Not cut short. A long body holds every short word by chance, so no other filler speaks against it."""
    return "xxxxxxxx" not in value.lower() and not match.string.startswith(("...", "…"), match.end())


def url(match: re.Match[str], value: str) -> bool:
    """A password that means something, beside its user."""
    return shapes.url_password(match["user"], value)


def password(match: re.Match[str], value: str) -> bool:
    """A password that means something."""
    return shapes.url_password("", value)


def chosen(match: re.Match[str], value: str) -> bool:
    """A password by its look, where a name could stand as well."""
    return shapes.assigned_password(value, firm=True, alone=True)


def basic(match: re.Match[str], value: str) -> bool:
    """Base64 of `user:password`."""
    try:
        plain = binascii.a2b_base64(value + "=" * (-len(value) % 4)).decode("utf-8")
    except ValueError:
        return False
    user, colon, word = plain.partition(":")
    return bool(colon) and plain.isprintable() and shapes.url_password(user, word or user)


def after(commands: str) -> Check:
    """An option is a password only behind these commands, on the same line (or one that it continues)."""

    def check(match: re.Match[str], value: str) -> bool:
        line = match.string[max(0, match.start() - 300) : match.start() + 1].replace("\\\n", "  ")
        line = re.split(r"[\n;|&]|\\[nr]", line)[-1]
        return bool(re.search(commands, line)) and shapes.url_password("", value)

    return check


# None of these is in the list that wallets draw their words from; a sentence of twelve words has one of them.
_GRAMMAR_WORDS = (
    "the and for with are was were you your our not but has have had from into its his her their which would could "
    "been than them these those because where while does did"
)
_GRAMMAR = frozenset(_GRAMMAR_WORDS.split())


def seed_words(match: re.Match[str], value: str) -> bool:
    """Twelve words that make no sentence: a wallet's list holds no articles, and draws no word often."""
    words = re.findall(r"[a-z]+", value)[:12]
    return _GRAMMAR.isdisjoint(words) and len(set(words)) >= len(words) - 2
