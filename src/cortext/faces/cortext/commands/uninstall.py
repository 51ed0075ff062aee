"""`cortext uninstall`: remove exactly what init added."""

from __future__ import annotations

from argparse import ArgumentParser

from cortext.faces.cortext.commands import upgrade


def parser() -> ArgumentParser:
    """Return the parser of this command."""
    return upgrade.parser("uninstall")


def run(arguments: list[str]) -> int:
    """Undo `cortext init`."""
    return upgrade.run(arguments, "uninstall")
