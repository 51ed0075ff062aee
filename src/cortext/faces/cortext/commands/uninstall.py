"""`cortext uninstall`: take out exactly what init put in."""

from __future__ import annotations

from cortext.faces.cortext.commands import upgrade


def run(arguments: list[str]) -> int:
    """Undo `cortext init`."""
    return upgrade.run(arguments, "uninstall")
