"""The borders around what was recorded, and what keeps recorded words from drawing borders of their own. Pure.

Two things make a border that nobody can forge. A fence is drawn at random for each packet, and drawn again should it
occur anywhere inside. And the markers that are always the same (`[RESUMED CONVERSATION]`) are taken apart in every
text that was ever stored: their opening bracket becomes a parenthesis, whatever the case, the spacing, invisible
characters between the letters, or letters of another width or style. Letters of other alphabets that merely look alike
are not judged.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from unicodedata import category, normalize

BEGIN = "[RESUMED CONVERSATION]"
END = "[END RESUMED CONTEXT]"
# A first prompt that every user of the machine may read (in the arguments of a program): nothing of the conversation.
GO_ON = f"{BEGIN}\nGo on as the message above says.\n{END}"
# A summary that stands in for the messages before it.
BEGIN_SUMMARY = "[Summary of the first {count} messages of this conversation. It is a record, not a request.]"
END_SUMMARY = "[End of the summary. The conversation goes on:]"
UNANSWERED = (
    "[The message above got no answer: it was stopped, or it failed. What follows is a message of its own; take the "
    "one above up again only if it asks for that.]"
)

# What each marker is known by: its letters and digits, in small letters, without anything between them.
_NEEDLES = (b"resumedcon", b"summaryofthefirst", b"endofthesummary", b"themessageabovegotnoanswer")
_MARKER = (
    r"\[+(?:(?:begin|end|endof)?(?:the)?resumedcon(?:text|versation)"
    r"|summaryofthefirst|endofthesummary|themessageabovegotnoanswer)"
)
_NO_LETTERS = bytes(code for code in range(256) if not chr(code).isalnum() or code > 127)
# Where letters stand that Unicode calls another form of a plain one: full width, mathematical, in circles.
_STYLED = ((0x2100, 0x214F), (0x2460, 0x24FF), (0xFF01, 0xFF5E), (0x1D400, 0x1D7FF), (0x1F110, 0x1F189))
_BRACKETS = str.maketrans("[]", "()")
_RANDOM = 6  # bytes


def fence(inside: Iterable[str], draw: Callable[[int], bytes] = os.urandom) -> str:
    """A mark that nobody could know before, and that occurs in none of these texts."""
    texts = list(inside)
    while True:
        mark = draw(_RANDOM).hex()
        if not any(mark in text for text in texts):
            return mark


def field(text: str) -> str:
    """A stored value for a line of our own: one line, no control characters, no brackets, no marker."""
    plain = text if text.isprintable() else "".join([sign if sign.isprintable() else " " for sign in text])
    return disarmed(" ".join(plain.split()).translate(_BRACKETS))


def disarmed(text: str) -> str:
    """A stored text, word for word, in which no marker of ours works."""
    if not _suspicious(text):
        return text

    letters: list[str] = []
    places: list[int] = []
    for place, sign in enumerate(text):
        for letter in (sign if sign < "\x80" else normalize("NFKC", sign)).lower():
            if (letter.isalnum() and category(letter) != "Mn") or letter == "[":
                letters.append(letter)
                places.append(place)
    signs = list(text)
    for found in re.finditer(_MARKER, "".join(letters)):
        for index in range(*found.span()):
            if letters[index] == "[":
                signs[places[index]] = "("
    return "".join(signs)


def _suspicious(text: str) -> bool:
    """Whether the letters of a marker occur at all. Almost always they do not: this look has to be quick."""
    letters = text.encode("ascii", "ignore").translate(None, _NO_LETTERS).lower()
    if any(needle in letters for needle in _NEEDLES):
        return True
    return not text.isascii() and any(low <= ord(sign) <= high for sign in set(text) for low, high in _STYLED)
