"""`cortext complete`: save a conversation and mark it as completed."""

from __future__ import annotations

from cortext.faces.cortext.commands import stop


def run(arguments: list[str]) -> int:
    """Complete it."""
    return stop.run(arguments, "complete")
