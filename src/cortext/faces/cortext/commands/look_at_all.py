"""`cortext look-at-all`: compare every session's files with the list. Started in the background, not by people."""

from __future__ import annotations

from cortext.wiring.stores import Stores


def run(arguments: list[str]) -> int:
    """Look, and note that it was done."""
    Stores().listing().look_at_all()
    return 0
