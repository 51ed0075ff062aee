"""What the parsers of the commands share: the width of their help, lists, checked numbers, the filters
(`model/query`), and the stores that a command opens.

The width is set here because argparse would import shutil just to ask for it.
"""

from __future__ import annotations

import sys
from argparse import Action, ArgumentParser, ArgumentTypeError, HelpFormatter, Namespace
from collections.abc import Iterable
from typing import Any

from cortext.faces.terminal.output import columns, folded
from cortext.faces.terminal.run import is_repeat
from cortext.model.query import AMONG, FILTERS, Filter, Query, check_filters, of_sessions
from cortext.safety import terminal
from cortext.wiring.stores import Stores

HERE = "here"


class Help(HelpFormatter):
    """Help as wide as the screen, at most 100 columns."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, width=min(columns() or 100, 100))


class Several(Action):
    """An option whose value is a list with commas: given again, it adds to the list."""

    def __call__(self, parser: ArgumentParser, namespace: Namespace, values: Any, option_string: Any = None) -> None:
        before = f"{getattr(namespace, self.dest)}," if is_repeat(self, namespace) else ""
        setattr(namespace, self.dest, f"{before}{values}")


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


def add_filters(parser: ArgumentParser, *, without: tuple[str, ...] = ()) -> None:
    """Add the options for the filters of sessions, except some."""
    for name in of_sessions():
        filter = FILTERS[name]
        for flag, (about, _) in filter.flags.items():
            if flag not in without:
                parser.add_argument(f"--{flag}", action="store_true", help=about)
        if filter.compare == AMONG and name not in without:
            about = f"{filter.help} (default: the current folder)"
            parser.add_argument(f"--{name}", nargs="?", const=".", default="", metavar="PATH", help=about)
        elif name not in without and not filter.flags:
            _add(parser, name, filter, filter.help)
    parser.add_argument(f"--{HERE}", action="store_true", help="only the current workspace")


def add_message_filters(parser: ArgumentParser) -> None:
    """Add the options for all filters, as a search of messages has them."""
    for name, filter in FILTERS.items():
        _add(parser, name, filter, filter.of_messages or filter.help)


def _add(parser: ArgumentParser, name: str, filter: Filter, about: str) -> None:
    fields: dict[str, Any] = {"choices": filter.choices} if filter.choices and not filter.several else {}
    action = Several if filter.several else "store"
    parser.add_argument(f"--{name}", action=action, default="", help=about, **fields)


def is_filtered(options: Namespace, *, without: tuple[str, ...] = ()) -> bool:
    """Whether any filter was given, except some."""
    flags = [flag for filter in FILTERS.values() for flag in filter.flags]
    return any(getattr(options, name, None) for name in (*FILTERS, *flags, HERE) if name not in without)


def filters_of(options: Namespace) -> dict[str, str]:
    """Return the filters that were given, by name. Raises UsageError if one is invalid."""
    filters = {name: getattr(options, name, "") for name in FILTERS}
    for name, filter in FILTERS.items():
        if flags := [flag for flag in filter.flags if getattr(options, flag, False)]:
            filters[name] = _listed(flags)
    filters = {name: value for name, value in filters.items() if value}
    check_filters(filters)
    return filters


def query_of(options: Namespace, stores: Stores, *, archived: bool | None) -> Query:
    """Return which sessions the filters choose; None: whether they are archived or not."""
    filters = filters_of(options)
    words = [word for word in filters.get("is", "").split(",") if word not in ("", "archived")]
    words += [] if archived is None else ["archived" if archived else "unarchived"]
    return Query(filters={**filters, "is": _listed(words)}, roots=[stores.here()] if options.here else None)


def _listed(values: Iterable[str]) -> str:
    return ",".join(values)
