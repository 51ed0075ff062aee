"""What must be true of a match beyond its pattern: the checks that the rules refer to by name."""

from __future__ import annotations

import binascii
import hashlib
import re
from collections.abc import Callable

from cortext.safety.secrets import shapes

Check = Callable[[re.Match[str], str], bool]


def meant(match: re.Match[str], value: str) -> bool:
    """Not a placeholder."""
    return not shapes.placeholder(value)


def random(match: re.Match[str], value: str) -> bool:
    """Neither a placeholder nor built of words: the prefix could also begin an identifier."""
    return shapes.random_key(value)


def mixed(match: re.Match[str], value: str) -> bool:
    """A random mix of lower case, upper case and digits."""
    return shapes.mixed_key(value)


def numbered(match: re.Match[str], value: str) -> bool:
    """Digits among letters."""
    return shapes.digits_and_letters(value)


def whole(match: re.Match[str], value: str) -> bool:
    """Not truncated. A long value contains every short word by chance, so no other filler counts against it."""
    return "xxxxxxxx" not in value.lower() and not match.string.startswith(("...", "…"), match.end())


def url(match: re.Match[str], value: str) -> bool:
    """A real password next to its user name."""
    return shapes.url_password(match["user"], value)


def url_with_signs(match: re.Match[str], value: str) -> bool:
    """A real password in which `/`, `?` or `#` end what a program would read as one: with letters and a digit."""
    return url(match, value) and any(char.isdigit() for char in value) and any(char.isalpha() for char in value)


def password(match: re.Match[str], value: str) -> bool:
    """A real password."""
    return shapes.url_password("", value)


def chosen(match: re.Match[str], value: str) -> bool:
    """A password by its appearance, where a name would be just as likely."""
    return shapes.assigned_password(value, firm=True, alone=True)


def basic(match: re.Match[str], value: str) -> bool:
    """Base64 of `user:password`."""
    try:
        plain = binascii.a2b_base64(value + "=" * (-len(value) % 4)).decode("utf-8")
    except ValueError:
        return False
    user, colon, word = plain.partition(":")
    return bool(colon) and plain.isprintable() and shapes.url_password(user, word or user)


_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"


def wallet_key(match: re.Match[str], value: str) -> bool:
    """A wallet's key by its checksum: it has no mark of its own."""
    number = 0
    for char in value:
        number = number * 58 + _BASE58.index(char)
    raw = number.to_bytes((number.bit_length() + 7) // 8, "big")
    return len(raw) in (37, 38) and hashlib.sha256(hashlib.sha256(raw[:-4]).digest()).digest()[:4] == raw[-4:]


def after(commands: str) -> Check:
    """Return a check: an option is a password only after these commands, on the same (or a continued) line."""

    def check(match: re.Match[str], value: str) -> bool:
        line = match.string[max(0, match.start() - 300) : match.start() + 1].replace("\\\n", "  ")
        line = re.split(r"[\n;|&]|\\[nr]", line)[-1]
        return bool(re.search(commands, line)) and shapes.url_password("", value)

    return check


# None of these is in the word list of wallets, and a sentence of twelve words contains at least one of them.
_GRAMMAR_WORDS = (
    "the and for with are was were you your our not but has have had from into its his her their which would could "
    "been than them these those because where while does did"
)
_GRAMMAR = frozenset(_GRAMMAR_WORDS.split())


def seed_words(match: re.Match[str], value: str) -> bool:
    """Twelve words that do not form a sentence: a wallet's list has no articles, and rarely repeats a word."""
    words = re.findall(r"[a-z]+", value)[:12]
    return _GRAMMAR.isdisjoint(words) and len(set(words)) >= len(words) - 2
