"""What must be true of a match beyond its pattern: the checks that the rules refer to by name."""

from __future__ import annotations

import binascii
import hashlib
import re
from collections.abc import Callable

from cortext.safety.secrets import shapes, words

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


_PATH_SCHEMES = ("ssh", "git", "svn", "file")  # a path may follow the host's colon there
_SIGNS = re.compile(r"[/?#@.:_-]")


def url_with_signs(match: re.Match[str], value: str) -> bool:
    """A real password in which `/`, `?` or `#` end what a program would read as one, and not the path of a file: a
    part of it must be as mixed as no name is."""
    if match.string.endswith(_PATH_SCHEMES, max(0, match.start() - 8), match.start()):
        return False
    is_mixed = any(shapes.turns(part) >= 3 for part in _SIGNS.split(value))
    return is_mixed and url(match, value) and not (value[0] == "/" and len(match["user"]) == 1)


def password(match: re.Match[str], value: str) -> bool:
    """A real password."""
    return shapes.url_password("", value)


def chosen(match: re.Match[str], value: str) -> bool:
    """A password by its appearance, where a name would be just as likely."""
    return shapes.assigned_password(value, firm=True, alone=True)


def argument(match: re.Match[str], value: str) -> bool:
    """A real password if it is in quotes; without them, where a word of a sentence could stand, by its appearance."""
    quoted = match.string[match.start("s") - 1] in "\"'"
    return password(match, value) if quoted else chosen(match, value) and any(char.isdigit() for char in value)


def named(match: re.Match[str], value: str) -> bool:
    """A secret by its appearance, under a name that announces one."""
    return words.is_secret_under(match["name"], value)


_BLOCK = 2_000  # characters
_BRACES = 40


def block(header: str) -> Check:
    """Return a check: the value is in a block `{…}` that is opened with this, whose `name` announces a secret."""

    def check(match: re.Match[str], value: str) -> bool:
        if not chosen(match, value):
            return False
        text, end = match.string, match.start()
        least, depth = max(0, end - _BLOCK), 0
        for _ in range(_BRACES):
            brace = max(text.rfind("{", least, end), text.rfind("}", least, end))
            if brace < 0:
                return False
            depth += -1 if text[brace] == "{" else 1
            end = brace
            if depth < 0:
                break
        found = re.search(header, text[max(0, end - 120) : end]) if depth < 0 else None
        return found is not None and words.is_secret_under(found["name"], value)

    return check


def heredoc(command: str) -> Check:
    """Return a check: the line is in a document that the shell gives to this command."""

    def check(match: re.Match[str], value: str) -> bool:
        text, start = match.string, match.start()
        mark = text.rfind("<<", max(0, start - _BLOCK), start)
        opened = re.compile(r"<<-?\s{0,4}\\{0,3}[\"']?(\w{1,20})").match(text, mark) if mark >= 0 else None
        if opened is None or not password(match, value):
            return False
        before = re.split(r"\n|\\n", text[max(0, mark - 200) : mark])[-1]
        rest, *lines = re.split(r"\n|\\n", text[opened.end() : start])
        return command in before + rest and not any(line.strip() == opened[1] for line in lines)

    return check


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


def is_glued(text: str, start: int) -> bool:
    """Whether a match begins in the middle of a word. An escape or a percent code before it does not count.

    Keys are of ASCII letters, so a letter of another script before one is the end of a sentence and not of a word.
    """
    if start == 0 or not (text[start - 1].isascii() and text[start - 1].isalnum()) or not text[start].isalnum():
        return False
    before = text[max(0, start - 12) : start]
    return not re.search(
        r"\\[nrtbf]$|%[0-9A-Fa-f]{2}$|\\u[0-9a-fA-F]{4}$|\\x[0-9a-fA-F]{2}$"
        r"|(?:\x1b|\\(?:u001[bB]|x1[bB]|033|e))\[[0-9;]{0,4}m$",
        before,
    )
