"""What the parsers of the commands share: the width of their help, and checked numbers.

The width is set here because argparse would import shutil just to ask for it.
"""

from __future__ import annotations

from argparse import ArgumentTypeError, HelpFormatter

from cortext.faces.terminal.style import columns


class Help(HelpFormatter):
    """Help as wide as the screen, at most 100 columns."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=min(columns() or 100, 100))


def count(text: str) -> int:
    """Return the value of an option: an integer of at least 1."""
    return _number(text, 1)


def count_or_none(text: str) -> int:
    """Return the value of an option: an integer of at least 0."""
    return _number(text, 0)


def _number(text: str, least: int) -> int:
    try:
        number = int(text)
    except ValueError:
        raise ArgumentTypeError(f"invalid number {text!r}") from None
    if number < least:
        raise ArgumentTypeError(f"must be at least {least}, not {number}")
    return number
