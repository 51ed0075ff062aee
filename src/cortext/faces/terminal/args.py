"""What the parsers of the commands share: the width of their help, options given twice, checked numbers, and the
stores that a command opens.

The width is set here because argparse would import shutil just to ask for it.
"""

from __future__ import annotations

import argparse
import sys
from argparse import Action, ArgumentError, ArgumentParser, ArgumentTypeError, HelpFormatter, Namespace
from typing import Any

from cortext.faces.terminal.output import columns, folded
from cortext.safety import terminal
from cortext.wiring.stores import Stores


class Help(HelpFormatter):
    """Help as wide as the screen, at most 100 columns."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=min(columns() or 100, 100))


class Several(Action):
    """An option whose value is a list with commas: given again, it adds to the list."""

    def __call__(self, parser: ArgumentParser, namespace: Namespace, values: Any, option_string: Any = None) -> None:
        before = f"{getattr(namespace, self.dest)}," if _is_repeat(self, namespace) else ""
        setattr(namespace, self.dest, f"{before}{values}")


def refuse_repeats() -> None:
    """Make an option with one value an error if it is given twice: argparse would silently take the last."""
    store: Any = argparse._StoreAction
    store.__call__ = _store_once


def _store_once(self: Action, parser: object, namespace: Namespace, values: object, option_string: Any = None) -> None:
    if option_string is not None and _is_repeat(self, namespace):
        raise ArgumentError(self, "given twice: it has one value")
    setattr(namespace, self.dest, values)


def _is_repeat(action: Action, namespace: Namespace) -> bool:
    """Whether an option was given before; it counts as given now."""
    given: set[int] = namespace.__dict__.setdefault("_given", set())
    if id(action) in given:
        return True
    given.add(id(action))
    return False


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


def stores_for(*, only_reads: bool = True) -> Stores:
    """Return the stores of a command in the current folder.

    If the command only reads, a broken settings file of the workspace is noted on standard error, and the defaults are
    used; otherwise it raises ConfigError or UnsafePath.
    """
    stores = Stores(only_reads=only_reads)
    for line in stores.settings.broken_warnings():
        print(folded(terminal.line(f"Note: {line}"), sys.stderr, indent=2), file=sys.stderr)
    return stores
