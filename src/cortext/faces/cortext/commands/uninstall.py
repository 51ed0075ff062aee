"""`cortext uninstall`: take out exactly what init put in."""

from __future__ import annotations

from argparse import ArgumentParser

from cortext.faces.cortext.commands import upgrade


def parser() -> ArgumentParser:
    """The command line."""
    return upgrade.parser("uninstall")


def run(arguments: list[str]) -> int:
    """Undo `cortext init`."""
    return upgrade.run(arguments, "uninstall")
