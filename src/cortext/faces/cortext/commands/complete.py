"""`cortext complete`: save a conversation and mark it as completed."""

from __future__ import annotations

from argparse import ArgumentParser

from cortext.faces.cortext.commands import stop


def parser() -> ArgumentParser:
    """Return the parser of this command."""
    return stop.parser("complete")


def run(arguments: list[str]) -> int:
    """Complete it."""
    return stop.run(arguments, "complete")
