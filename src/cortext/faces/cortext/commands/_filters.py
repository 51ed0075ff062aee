"""The options by which commands choose sessions and messages: one for each filter (`model/query.py`)."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable
from typing import Any

from cortext.faces.terminal.args import Several
from cortext.model.query import AMONG, FILTERS, Filter, Query, check_filters, of_sessions
from cortext.wiring.stores import Stores

HERE = "here"


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
