"""`cortext list`: list the sessions of every store."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from cortext.errors import UsageError
from cortext.faces.cortext.commands._listing import SERVED, import_line, listing_with_notes, offer_import
from cortext.faces.terminal.args import Help, Several, add_filters, count_or_none, is_filtered, query_of, stores_for
from cortext.faces.terminal.output import columns, folded, print_json, report_missing, rows_of_screen
from cortext.faces.terminal.table import Column, columns_table, cut, fitted_table, map_values, shown_statuses, table
from cortext.model import clock
from cortext.model.ids import short_ids
from cortext.model.query import Query
from cortext.safety import terminal
from cortext.services.library import last_command
from cortext.services.library.json_views import session_json
from cortext.services.library.last_command import PROGRAM
from cortext.services.library.listing import Listing, Row, placed

if TYPE_CHECKING:
    from cortext.services.cost.prices import Prices


COST, CALLS = "cost", "calls"
_PLAIN: dict[str, Callable[[Row], str]] = {
    "id": lambda row: row.id,
    "title": lambda row: row.shown_title,
    "type": lambda row: row.shown_type,
    "tool": lambda row: row.tool or "-",
    "agent": lambda row: row.agent or "-",
    "status": lambda row: row.status,
    "active": lambda row: clock.ago(row.last_active),
    "created": lambda row: clock.day(row.created_at),
    "messages": lambda row: str(row.message_count),
    "tokens": lambda row: str(row.token_count),
    "project": lambda row: row.project or "-",
    "star": lambda row: "★" if row.starred else "-",
    "tags": lambda row: shown_tags(row.tags) or "-",
    "place": lambda row: row.place or "-",
}
NAMES = (*_PLAIN, "workspace", CALLS, COST)
_NUMBERS = ("messages", "tokens", CALLS, COST)
ORDERS = {"active": "last_active", "created": "created_at", "messages": "message_count", "title": "title"}
KNOWN = 2_000  # sessions among which a short id is unique, if some are on a server
# Fields of a session that the table shows.
SHOWN = (
    "id", "shown_type", "tool", "status", "last_active", "message_count", "shown_title", "damage", "tags", "starred",
    "branch_count", "root",
)  # fmt: skip
NO_SESSIONS = "No sessions yet. Try `cortext import` or `cortext demo`."
LONGEST_PLACE = 30  # columns of the place of a session that left its work tree
OTHER_LINES = 4  # of the screen: the headings, what is not shown, a note, and the prompt


def chosen_columns(text: str) -> list[str]:
    """Return the names of the columns in an option; UsageError for one that does not exist."""
    names = [name.strip().lower() for name in text.split(",") if name.strip()]
    for name in names:
        if name not in NAMES:
            raise UsageError(f"unknown column {name!r}", hint=f"use {', '.join(NAMES)}")
    return list(dict.fromkeys(names))


def own_table(rows: Sequence[Row], names: Sequence[str], listing: Listing, prices: Callable[[], Prices]) -> str:
    """Return the sessions as a table with these columns."""
    cells = {name: [_PLAIN[name](row) for row in rows] for name in names if name in _PLAIN}
    if "workspace" in names:
        cells["workspace"] = [listing.labels.get(row.root, row.root) for row in rows]
    if COST in names or CALLS in names:
        cells |= _costs(rows, listing, prices())
    screen = columns()
    if not screen:
        return table([name.upper() for name in names], list(zip(*(cells[name] for name in names), strict=True)))
    made = [Column(name.upper(), cells[name], right=name in _NUMBERS) for name in names]
    stretched = names.index("title") if "title" in names else 0
    return fitted_table(made, stretched, screen)[0]


def shown_tags(tags: str) -> str:
    """Return tags for a table."""
    return " ".join(f"#{tag}" for tag in tags.split())


def _costs(rows: Sequence[Row], listing: Listing, prices: Prices) -> dict[str, list[str]]:
    """Return the columns with what the sessions cost; a session without recorded tokens has a dash."""
    from cortext.faces.cortext.commands.figures import read_ledger
    from cortext.services.cost.prices import money

    sums = read_ledger(listing, prices).by_session(rows)
    entries = [sums.get((row.root, row.id)) for row in rows]
    return {
        COST: [money(entry.cost, entry.unpriced) if entry else "-" for entry in entries],
        CALLS: [str(entry.calls) if entry else "-" for entry in entries],
    }


def parser() -> ArgumentParser:
    """Return the parser of this command."""
    made = ArgumentParser(
        prog="cortext list",
        formatter_class=Help,
        description="List the sessions of every store on this machine, most recently active first: on a screen, "
        "without a filter, as many as fit. Archived sessions are left out.",
        epilog="examples:  cortext list --here --type debug --after 7d  ·  cortext list --columns title,tokens,cost",
    )
    add_filters(made)
    made.add_argument("--sort", choices=tuple(ORDERS), default="active", help="sort order (default: active)")
    about = f"at most N sessions (default: all; {SERVED} if some are on a server, without --all; 0: all)"
    made.add_argument("--limit", type=count_or_none, metavar="N", help=about)
    about = "all sessions, also those that do not fit the screen and chats that only ran a command: /workspace.resume, "
    made.add_argument("--all", action="store_true", help=f"{about}stop-conversation or related")
    about = f"the columns of the table, separated by commas: {', '.join(NAMES)}"
    made.add_argument("--columns", action=Several, default="", metavar="NAMES", help=about)
    made.add_argument("--json", action="store_true", help="print a JSON array of sessions")
    return made


def run(arguments: list[str]) -> int:
    """Print the list."""
    options = parser().parse_args(arguments)
    names = chosen_columns(options.columns)
    stores = stores_for()
    if not (is_filtered(options) or options.json):
        offer_import(stores)
    listing, notes = listing_with_notes(stores)
    listing = listing.reachable()
    limit = options.limit if options.limit is not None else 0 if options.all else listing.limit(SERVED)
    query = replace(
        query_of(options, stores, archived=options.archived),
        limit=limit,
        order=ORDERS[options.sort],
        own_commands=options.all,
    )
    if options.json or names:
        rows = placed(listing.rows(query), listing.places())
        if options.json:
            print_rows(rows)
            return _report_missing(listing)
        if names and rows:
            print(own_table(rows, names, listing, stores.prices))
            last_command.remember_list(PROGRAM, ((row.root, row.id) for row in rows))
        found = list(map(attrgetter(*SHOWN), rows))
    else:
        found = listing.cells(SHOWN, query)
    is_cut = options.limit is None and 0 < limit == len(found)  # there may be more on the server
    if found and not names:
        everything = options.all or options.limit is not None or is_filtered(options)
        fitting = len(found) if everything else _fitting(len(found))
        print_table(found[:fitting], listing, stores.workspace)
        if fitting < len(found):
            print(f"… and {'at least ' if is_cut else ''}{len(found) - fitting:,} more: --all shows them")
            is_cut = False
    elif not found and not listing.away:
        print("No session matches." if is_filtered(options) else import_line(stores) or NO_SESSIONS)
    if is_cut:
        notes = [*notes, f"only the first {limit} sessions are shown: use --all for all"]
    for line in notes:
        print(folded(terminal.line(f"Note: {line}"), sys.stderr, indent=2), file=sys.stderr)
    return _report_missing(listing)


def _report_missing(listing: Listing) -> int:
    """Say which servers did not answer, so that their sessions are missing; return the exit code."""
    return report_missing(listing.away)


def _fitting(count: int) -> int:
    """Return how many sessions to show: what fits the screen, or all if the output is not a screen."""
    room = max(5, rows_of_screen() - OTHER_LINES)
    return count if not rows_of_screen() or count <= room + 1 else room


def print_rows(rows: list[Row]) -> None:
    """Print a JSON array of sessions."""
    print_json([session_json(row) for row in rows])


def print_table(found: list[tuple[Any, ...]], listing: Listing, here: str) -> None:
    """Print the table of sessions, each with the fields SHOWN; row numbers refer to it from now on."""
    print(session_table(found, listing, here))
    last_command.remember_list(PROGRAM, ((cells[-1], cells[0]) for cells in found))


def session_table(found: list[tuple[Any, ...]], listing: Listing, here: str) -> str:
    """Return the table of sessions, each with the fields SHOWN: on a screen as many as fit, elsewhere all of them.

    `here` is the current workspace: among its own conversations, a shorter prefix of an id is unique.
    """
    screen = columns()
    if screen:
        return _screen_table(found, listing, here, screen)
    ids, types, tools, statuses, times, counts, titles, damage, *_, branches, _ = zip(*found, strict=True)
    cells = (
        ids,
        types,
        map_values(lambda tool: tool or "-", tools),
        shown_statuses(statuses, damage, branches),
        clock.Ago().of_all(times),
        map_values(str, counts),
        titles,
    )
    heads = ("ID", "TYPE", "TOOL", "STATUS", "LAST ACTIVE", "MESSAGES", "TITLE")
    return columns_table(heads, cells, styles=("cyan", "", "", "", "dim", "", ""))


def _screen_table(found: list[tuple[Any, ...]], listing: Listing, here: str, screen: int) -> str:
    """Return a table of number, title and short id, with as many other columns as fit."""
    ids, types, tools, statuses, times, counts, titles, damage, tags, starred, branches, roots = zip(
        *found, strict=True
    )
    short = _short_ids(ids, roots, listing, here)
    names = [
        f"★ {title or name}" if star else title or name for title, name, star in zip(titles, ids, starred, strict=True)
    ]
    table_columns = [
        Column("#", [str(number) for number in range(1, len(ids) + 1)], right=True, style="dim"),
        Column("TITLE", names),
        Column("ID", short, style="cyan"),
        Column("TYPE", types, rank=5),
        Column("TOOL", map_values(lambda tool: tool or "-", tools), rank=4),
        Column("STATUS", shown_statuses(statuses, damage, branches), rank=2),
        Column("ACTIVE", clock.Ago().of_all(times), rank=1, style="dim"),
        Column("MSGS", map_values(str, counts), rank=6, right=True),
    ]
    if places := listing.places():
        left = [cut(places.get(key, ""), LONGEST_PLACE) for key in zip(roots, ids, strict=True)]
        table_columns += [Column("PLACE", left, rank=2, style="yellow")] if any(left) else []
    if any(tags):
        table_columns.append(Column("TAGS", map_values(shown_tags, tags), rank=7, style="magenta"))
    if len(set(roots)) > 1:
        table_columns.append(
            Column("WORKSPACE", map_values(lambda root: listing.labels.get(root, root), roots), rank=3)
        )
    text, heads = fitted_table(table_columns, 1, screen)
    if any(damage) and "STATUS" not in heads:
        marked = [f"(damaged) {name}" if bad else name for name, bad in zip(names, damage, strict=True)]
        text, _ = fitted_table([*table_columns[:1], Column("TITLE", marked), *table_columns[2:3]], 1, screen)
    return text


def _short_ids(ids: Sequence[str], roots: Sequence[str], listing: Listing, here: str) -> list[str]:
    """Return the shortest prefix that names each session here: in a workspace, a bare number means one of its own."""
    known = listing.cells(("id", "root"), Query(limit=listing.limit(KNOWN)))
    everywhere = short_ids(set(ids), [name for name, _ in known])
    local_ids = {name for name, root in known if root == here}
    local_prefixes = short_ids({name for name, root in zip(ids, roots, strict=True) if root == here}, local_ids)
    short = []
    for name, root in zip(ids, roots, strict=True):
        if root == here:
            short.append(local_prefixes[name])
        elif name in local_ids:
            short.append("-")  # a clone of one that is here too: only its row number is unambiguous
        elif here and everywhere[name].isdigit():
            short.append(name[: len(everywhere[name]) + 2])  # 007-p: the hyphen and a letter
        else:
            short.append(everywhere[name])
    return short
