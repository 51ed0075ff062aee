"""`cortext sync`: only what is new since the last time. The same as a second import, said shortly."""

from __future__ import annotations

from argparse import ArgumentParser

from cortext.faces.cortext.commands import import_


def parser() -> ArgumentParser:
    """The command line."""
    return import_.parser("sync")


def run(arguments: list[str]) -> int:
    """Take in what is new."""
    parser().parse_args(arguments)
    return import_.run(arguments)
