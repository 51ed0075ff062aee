"""Amounts, lists and long texts as people and models read them: "2 messages", "a, b and 3 more", cut with an ellipsis.

What is cut is masked before: half a secret has no recognisable form.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from cortext.model import tokens

_LONGEST_WORD = 80


def amount(count: int, noun: str) -> str:
    """Return a number with its noun: `1 message`, `2 messages`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def times(count: int) -> str:
    """Return how often: `once`, `2 times`."""
    return "once" if count == 1 else f"{count:,} times"


def listed(names: Sequence[str], most: int, shown: Callable[[str], str] = str) -> str:
    """Return at most so many names, as they are `shown`, and how many there are besides: `a, b and 3 more`."""
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(map(shown, names[:most])) + more


def kinds(counts: Mapping[str, int]) -> str:
    """Return how many there are of each kind: `2 × api key, 1 × password`."""
    return ", ".join(f"{count} × {kind}" for kind, count in sorted(counts.items()))


def quoted(text: str, longest: int) -> str:
    """Return the text in quotes, on one line, cut to at most so many characters."""
    return f'"{clip(text, longest)}"'


def ends(beginning: str, end: str, missing: int, what: str = "") -> str:
    """Return the beginning and the end of a long text, with a note of how many characters are missing between them."""
    return f"{beginning}\n[… {missing:,} characters {what}left out …]\n{end}"


def cut(text: str, longest: int) -> str:
    """Return the text, cut to at most so many characters with an ellipsis."""
    return text if len(text) <= longest else text[: longest - 1] + "…"


def clip(text: str, longest: int = 240) -> str:
    """Return the text on one line, cut to at most so many characters with an ellipsis."""
    return cut(" ".join(text.split()), longest)


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
