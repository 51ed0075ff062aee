"""The sessions that a command is about, in the same way for every command: the one that is named
(`services/library/resolve`), or those that the filters choose (`model/query`)."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Iterable, Sequence
from typing import Any

from cortext.faces.terminal.args import Several
from cortext.model.query import AMONG, FILTERS, Filter, Query, check_filters, of_sessions
from cortext.safety.framing import field
from cortext.services.library import last_command
from cortext.services.library.listing import Listing, Row
from cortext.services.library.resolve import Resolver, refuse_namesake, with_exact_id
from cortext.services.library.stores import Found
from cortext.wiring.stores import Stores

PROGRAM = "cortext"  # whose last list row numbers refer to
HELP_ID = "the session: its row in the last list or search (3), its number (014), or its id or a prefix of it"
HELP = "the session: its row in the last list or search (3), its number (014), its id or a prefix of it, or words"
HERE = "here"


def which(stores: Stores, wanted: str, *, words: bool = True) -> Found:
    """Return the session that is meant. Without `words`, only numbers and ids count: for commands that change it."""
    found = with_exact_id(stores.all(), wanted)
    if len(found) != 1:
        listing = stores.listing()
        row = which_row(listing, stores.workspace, wanted, words=words)
        named_store = listing.named_store(row.root)
        found = [Found(named_store, named_store.store.get(row.id))]
    if not words and stores.workspace:
        refuse_namesake(stores.workspace_store(), found[0].root, found[0].session.id)
    return found[0]


def named(found: Found) -> str:
    """Return how a command that changes a session names it: id, title and store."""
    return named_as(found.session.id, found.session.title, found.root)


def named_as(session_id: str, title: str, root: str) -> str:
    """Return the same for what is known of a session."""
    shown = f' ("{field(title)}")' if title else ""
    return f"{session_id}{shown} in {root}"


def which_row(listing: Listing, workspace: str, wanted: str, *, words: bool = True) -> Row:
    """Return its row in the list of all sessions."""
    listing.refresh()
    return resolver(listing.named(wanted, last_command.recall_list(PROGRAM)), workspace).resolve(wanted, words=words)


def resolver(rows: Sequence[Row], workspace: str) -> Resolver:
    """Return the resolver of `cortext`: for this workspace, with the row numbers of its last list."""
    return Resolver(rows, workspace, last_command.recall_list(PROGRAM))


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
