"""`cortext sync`: import what is new since the last time. Another name for a repeated import."""

from __future__ import annotations

from argparse import ArgumentParser

from cortext.faces.cortext.commands import import_


def parser() -> ArgumentParser:
    """Return the parser of this command."""
    return import_.parser("sync")


def run(arguments: list[str]) -> int:
    """Import what is new."""
    parser().parse_args(arguments)
    return import_.run(arguments)
