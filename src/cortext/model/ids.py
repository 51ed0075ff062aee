"""Ids of sessions (safe as file names) and of messages (unique, ordered by time), and names that become paths.

The checks are made before any path is built. They cannot see the disk: a folder that is a symlink passes here; stores
open each component of a path without following links.
"""

from __future__ import annotations

import os
import re
import time
import unicodedata
from bisect import bisect_left
from collections.abc import Iterable

from cortext.errors import InvalidId, UnsafePath

ID_PATTERN = r"[a-z0-9][a-z0-9_-]{0,95}"
_ID = re.compile(ID_PATTERN)
_NUMBER = re.compile(r"(\d{3,})-")
_OF_A_CHAT = re.compile(r"(?:cont_)?tg_(n?\d+)(?:_.*)?|sess_(n?\d+)_.+")
SHORTEST = 4  # characters of the shortest abbreviated id
# Crockford's alphabet: no i, l, o, u, so that an id can be read aloud and typed again.
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
# Letters that Unicode does not decompose into one of a to z and a mark.
_LETTERS = str.maketrans(
    {"ß": "ss", "æ": "ae", "œ": "oe", "ø": "o", "ł": "l", "đ": "d", "ð": "d", "þ": "th", "ħ": "h", "ŧ": "t", "ı": "i"}
)

_RESERVED = frozenset({"", ".", ".."})


def is_id(text: str) -> bool:
    """Whether the text is a legal id."""
    # fullmatch, because `$` would let a trailing newline through.
    return _ID.fullmatch(text) is not None


def check_id(text: str) -> str:
    """Return the id itself, or raise InvalidId. Call it before building a path from an id."""
    if not isinstance(text, str) or not is_id(text):
        raise InvalidId(
            f"invalid session id {ascii(text)[:120]}",
            hint="use 1 to 96 characters of a-z, 0-9, _ and -, starting with a letter or digit",
        )
    return text


def number_of(session_id: str) -> str:
    """Return the number at the beginning of a conversation's id (`014` of `014-plan-move`), or an empty string."""
    found = _NUMBER.match(session_id)
    return found.group(1) if found else ""


def chat_name(chat: int, thread: int | None = None) -> str:
    """Return the name of a messenger's chat, a legal session id: `tg_4711`, `tg_n100123` (-100123), `tg_n100123_t7`."""
    number = f"n{-chat}" if chat < 0 else str(chat)
    return f"tg_{number}" if thread is None else f"tg_{number}_t{thread}"


def chat_prefix(chat: str) -> str:
    """Return how the ids of further sessions of a messenger's chat begin, after which `chat_of` recognises them."""
    return f"sess_{chat.removeprefix('tg_')}_"


def chat_of(session_id: str) -> str:
    """Return the messenger's chat that a session belongs to, without its topic; empty: it belongs to this machine."""
    found = _OF_A_CHAT.fullmatch(session_id)
    return f"tg_{found[1] or found[2]}" if found else ""


def is_number(text: str) -> bool:
    """Whether this is a number, which names a session but never matches as a word."""
    return text.isascii() and text.isdigit()


def looks_like_id(text: str) -> bool:
    """Whether this looks like an id, or the beginning of one, rather than a word: `014-plan`, `sess_7k3`, `3f2a9b1c`.

    Text that looks like an id is only looked up as an id, never as a word that a conversation mentions.
    """
    if not is_id(text):
        return False
    parts = re.split(r"[-_]", text)
    return bool(number_of(text)) or any(
        _is_machine_made(part, after=before) for before, part in zip(["", *parts], parts, strict=False)
    )


def _is_machine_made(part: str, *, after: str) -> bool:
    if after in ("sess", "ses", "session"):
        return any(map(str.isdigit, part)) or (len(part) == 10 and all(letter in _ALPHABET for letter in part))
    digits = sum(map(str.isdigit, part))
    return (digits >= 1 and len(part) >= 6 and all(letter in "0123456789abcdef" for letter in part)) or (
        digits >= 2 and len(part) >= 10
    )


def new_message_id() -> str:
    """Return a new message id: 16 hex digits of the time in nanoseconds, 12 random ones."""
    return (time.time_ns().to_bytes(8, "big") + os.urandom(6)).hex()


def new_session_id(prefix: str) -> str:
    """Return a new session id such as `sess_7k3vq9xw1t`, with 50 random bits."""
    bits = int.from_bytes(os.urandom(7), "big")
    letters = "".join(_ALPHABET[(bits >> (5 * index)) & 31] for index in range(10))
    return check_id(f"{prefix}{letters}")


def slug(text: str, longest: int = 48) -> str:
    """A text as part of an id: `Café & API design` becomes `cafe-api-design`; may be empty."""
    decomposed = unicodedata.normalize("NFKD", text.lower()).translate(_LETTERS)
    plain = decomposed.encode("ascii", "ignore").decode("ascii").lower()
    words = re.findall(r"[a-z0-9]+", plain)
    short = ""
    for word in words:
        if len(short) + len(word) + 1 > longest:
            break
        short = f"{short}-{word}" if short else word
    return short or "-".join(words)[:longest]


def short_ids(wanted: Iterable[str], known: Iterable[str]) -> dict[str, str]:
    """Return the shortest prefix of each wanted id that is unique among the known ids and not just a number."""
    ordered = sorted(set(known))
    short: dict[str, str] = {}
    for name in wanted:
        index = bisect_left(ordered, name)
        beside = ordered[max(0, index - 1) : index] + [other for other in ordered[index : index + 2] if other != name]
        size = max((_common(name, other) for other in beside), default=0) + 1
        if _NUMBER.match(name):  # every workspace numbers its conversations: 002 is a name of its own
            size = max(size, 3)
        else:
            size = max(size, SHORTEST)
            while size < len(name) and name[:size].isdigit():
                size += 1
        while size < len(name) and name[size - 1] in "-_":
            size += 1
        short[name] = name[:size]
    return short


def _common(one: str, other: str) -> int:
    """Return the length of the common prefix of two ids."""
    size = 0
    for ours, theirs in zip(one, other, strict=False):
        if ours != theirs:
            break
        size += 1
    return size


def is_plain_name(name: str) -> bool:
    """Whether the text is a single name in a folder: no separator, no NUL, not `.` or `..`."""
    return (
        name not in _RESERVED
        and not any(character in name for character in "/\\\0")
        and len(name.encode("utf-8", "surrogatepass")) <= 255
    )


def check_plain_name(name: str) -> str:
    """Return the name itself, or raise UnsafePath."""
    if not is_plain_name(name):
        raise UnsafePath(
            f"invalid file name {ascii(name)[:120]}",
            kept="nothing was touched",
            hint="use a name without / or \\ that is not . or ..",
        )
    return name
