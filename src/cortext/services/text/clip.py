"""Texts cut to a length, with an ellipsis where something is missing."""

from __future__ import annotations

from cortext.model import tokens

_LONGEST_WORD = 80


def clip(text: str, longest: int = 240) -> str:
    """Return the text on one line, cut to at most so many characters with an ellipsis."""
    text = " ".join(text.split())
    return text if len(text) <= longest else text[: longest - 1] + "…"


def clip_lines(text: str, longest: int) -> str:
    """Return the first whole lines of a text, at most so many characters; an ellipsis says that others are missing."""
    if len(text) <= longest:
        return text
    kept = text[: longest - 1].rpartition("\n")[0].rstrip()
    return f"{kept}\n…" if len(kept) > longest // 2 else clip(text, longest)


def clip_tokens(text: str, most: int) -> str:
    """Return the beginning of a text in at most so many tokens, with an ellipsis if something is missing."""
    if tokens.estimate(text) <= most:
        return text
    low, high = 0, min(len(text), 4 * max(most, 0))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if tokens.estimate(text[:middle]) < most else (low, middle - 1)
    return text[: _after_a_word(text, low)].rstrip() + "…" if low else ""


def _after_a_word(text: str, end: int) -> int:
    """Return where to cut so that no word is cut: half a name would be one that nobody used.

    Scripts without blanks are cut anywhere.
    """
    start = text.rfind(" ", max(0, end - _LONGEST_WORD), end + 1)
    return start if start > 0 and text[start:end].isascii() else end
