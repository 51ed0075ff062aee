"""What the parsers of the commands share: the layout of their help, and numbers that make sense.

argparse would import shutil only to ask how wide the screen is.
"""

from __future__ import annotations

from argparse import ArgumentTypeError, HelpFormatter

from cortext.faces.terminal.style import columns


class Help(HelpFormatter):
    """Help as wide as the screen, or 100 columns where there is none."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=min(columns() or 100, 100))


def count(text: str) -> int:
    """An option's value that is a whole number of at least 1."""
    return _number(text, 1)


def count_or_none(text: str) -> int:
    """The same, or 0."""
    return _number(text, 0)


def _number(text: str, least: int) -> int:
    try:
        number = int(text)
    except ValueError:
        raise ArgumentTypeError(f"not a whole number: {text!r}") from None
    if number < least:
        raise ArgumentTypeError(f"must be at least {least}, not {number}")
    return number
