"""How many tokens a text has, and texts cut to a length, with an ellipsis where something is missing."""

from __future__ import annotations

# No message is larger than this, and a database can sum billions of them.
MOST = 2**31 - 1
_WIDE = bytes(range(0xE0, 0x100))

_LONGEST_WORD = 80


def counted(value: object) -> int | None:
    """Return a count that someone else wrote, or None if it cannot be one (negative, too large, not a number)."""
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MOST:
        return value
    return None


def estimate(text: str) -> int:
    """Estimate the tokens of a text without a vocabulary: a quarter of its characters (8.6% too high on real chats).

    Characters of three bytes or more (CJK, most symbols) count as one token each.
    """
    if text.isascii():
        return (len(text) + 3) // 4
    # In UTF-8 each of those begins with a byte from 0xE0 on. Usually all of them begin with 0xE2 (arrows, dashes,
    # quotes) and there is nothing else: the length shows that, and saves a second pass.
    raw = text.encode("utf-8", "surrogatepass")
    wide = raw.count(b"\xe2")
    if len(raw) - len(text) != 2 * wide:
        wide = len(raw) - len(raw.translate(None, _WIDE))
    return wide + (len(text) - wide + 3) // 4


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
    if estimate(text) <= most:
        return text
    low, high = 0, min(len(text), 4 * max(most, 0))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if estimate(text[:middle]) < most else (low, middle - 1)
    return text[: _after_a_word(text, low)].rstrip() + "…" if low else ""


def _after_a_word(text: str, end: int) -> int:
    """Return where to cut so that no word is cut: half a name would be one that nobody used.

    Scripts without blanks are cut anywhere.
    """
    start = text.rfind(" ", max(0, end - _LONGEST_WORD), end + 1)
    return start if start > 0 and text[start:end].isascii() else end
