"""What a word is, for indexing and for asking: the same rules on both sides.

Letters and digits make words; everything else (also `_`, `/` and `.`) parts them, so the pieces of an identifier or a
path are words that stand side by side. camelCase is kept and taken apart too. Scripts that write without blanks are
indexed sign by sign, with their places: any piece of such a text is found as a row of signs.
"""

from __future__ import annotations

import re

from cortext.model.message import Message

LONGEST_WORD = 64  # longer ones are keys, hashes and base64: nobody types them
LONGEST_TERM = 256  # a longer one stands for a word that is not indexed
LONGEST_TEXT = 200_000  # characters of a message that are indexed
LONGEST_CALL = 4_000  # characters of the arguments of a tool call

WORD = re.compile(r"[^\W_]+")
# Thai to Khmer, Kana, Han, Hangul, and what Unicode added to them.
_SIGN_CLASS = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff"
    "\uff66-\uff9f\U00020000-\U0003ffff"
)
SIGNS = re.compile(f"[{_SIGN_CLASS}]+")
_CAMEL = re.compile(r"[a-z0-9][A-Z]")
_CAMEL_PIECE = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")

# Said so often that they tell nothing; dropped from a question unless they are all that it has.
STOP = frozenset(
    re.findall(
        "[a-z]+",
        "a about after again all also am an and any are as at be because been before being but by can could did do "
        "does doing done down for from further get got had has have having he her here hers him his how i if in into "
        "is it its just let like may me might more most my no nor not of off on once only or other our out over own "
        "please shall she should so some such than that the their them then there these they this those through to "
        "too under until up us very was we were what when where which while who whom whose why will with would you "
        "your d ll m re s t ve don didn doesn isn wasn aren won",
    )
)


def searchable(message: Message) -> str:
    """The text of a message as search sees and shows it: what was said, then what the tools were asked for."""
    text = message.text
    if message.parts:
        calls = [f"{part.name} {_flat(part.input)}" for part in message.parts if part.type == "tool_call"]
        if calls:
            text = "\n".join([text, *calls] if text else calls)
    return text[:LONGEST_TEXT]


def _flat(value: object, room: int = LONGEST_CALL) -> str:
    """The texts and numbers in the arguments of a tool call, without their JSON."""
    if isinstance(value, str):
        return value[:room]
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        pieces: list[str] = []
        for item in value:
            pieces.append(_flat(item, room))
            room -= len(pieces[-1]) + 1
            if room <= 0:
                break
        return " ".join(pieces)
    return "" if value is None or isinstance(value, bool) else str(value)


# Bytes beyond ASCII stay: they belong to words, where a text was taken apart by somebody who knows them.
BLANKS = bytes(code if code > 127 or chr(code).isalnum() else 32 for code in range(256))


def words_of(text: str) -> list[str]:
    """The words of a text, in order."""
    return plain_words(text) if text.isascii() else WORD.findall(text)


def plain_words(text: str) -> list[str]:
    """The same for plain ASCII, five times faster than the pattern."""
    return text.encode("ascii").translate(BLANKS).decode("ascii").split()


def camel_pieces(word: str) -> list[str]:
    """`parseHTTPReply2` as parse, HTTP, Reply, 2; nothing where there is only one piece."""
    if word.islower() or not _CAMEL.search(word):
        return []
    pieces = _CAMEL_PIECE.findall(word)
    return pieces if len(pieces) > 1 else []


def without_signs(text: str) -> tuple[str, str]:
    """A text without the signs of scripts that write without blanks, and those, a dot between two rows of them."""
    rows = SIGNS.findall(text)
    return (SIGNS.sub(" ", text), ".".join(rows)) if rows else (text, "")


def clean(text: str) -> str:
    """The text as the index can take it: a lone surrogate is no character."""
    return text.encode("utf-8", "replace").decode("utf-8")
