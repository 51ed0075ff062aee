"""`cortext list`: what there is."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from operator import attrgetter

from cortext.faces.cortext.commands._listing import STATUSES, look_around
from cortext.faces.cortext.commands._which import PROGRAM
from cortext.faces.terminal.args import Help, count
from cortext.faces.terminal.table import columns_table, each, shown_statuses
from cortext.model import clock
from cortext.safety import terminal
from cortext.services import shown
from cortext.wiring import Wiring

TYPE_CHECKING = False  # as mypy knows it: importing typing would cost a quarter of our start-up
if TYPE_CHECKING:
    from typing import Any

    from cortext.services.listing import Row, Wanted

ORDERS = {"active": "last_active", "created": "created_at", "messages": "message_count", "title": "title"}
# What the table shows of a session.
SHOWN = ("id", "shown_type", "tool", "status", "last_active", "message_count", "shown_title", "damage")


def parser() -> ArgumentParser:
    """The command line."""
    made = ArgumentParser(
        prog="cortext list",
        formatter_class=Help,
        description="List sessions of every store on this machine, the last active first.",
    )
    made.add_argument("--type", help="only conversations of this type (brainstorm, debug, …)")
    made.add_argument("--status", choices=STATUSES, help="only sessions with this status")
    made.add_argument("--tool", help="only those held in this AI tool (claude, gemini, opencode, codex)")
    made.add_argument("--agent", help="only those with this agent")
    made.add_argument("--workspace", help="only this workspace or store: its name or its folder")
    made.add_argument("--after", default="", help="only those active since then: 2026-11-15, yesterday, 7d, 2w, 3m")
    made.add_argument("--before", default="", help="only those last active until then")
    made.add_argument("--sort", choices=tuple(ORDERS), default="active", help="by what (default: last activity)")
    made.add_argument("--limit", type=count, default=0, metavar="N", help="at most N of them")
    made.add_argument("--here", action="store_true", help="only this workspace")
    made.add_argument("--json", action="store_true", help="a JSON array of sessions")
    return made


def run(arguments: list[str]) -> int:
    """Print the list."""
    options = parser().parse_args(arguments)
    wiring = Wiring()
    after, before = _times(options)
    listing, told = look_around(wiring)
    by_title = options.sort == "title"
    wanted: Wanted = {
        "root": wiring.here() if options.here else "",
        "kind": options.type,
        "status": options.status,
        "tool": options.tool,
        "agent": options.agent,
        "limit": 0 if by_title else options.limit,
        "order": ORDERS[options.sort],
        "roots": listing.roots(options.workspace) if options.workspace else None,
        "after": after,
        "before": before,
    }
    if by_title or options.json:
        rows = listing.rows(**wanted)
        if by_title:  # from A to Z; all else has the most or the newest first
            rows.sort(key=lambda row: (row.name.casefold(), row.id))
            rows = rows[: options.limit] if options.limit > 0 else rows
        if options.json:
            print_json(rows)
            return 0
        found = list(map(attrgetter(*SHOWN, "root"), rows))
    else:
        found = listing.cells((*SHOWN, "root"), **wanted)
    if found:
        print_table(found)
    else:
        properties = ("type", "status", "tool", "agent", "here", "workspace", "after", "before")
        filtered = any(getattr(options, name) for name in properties)
        print("No session matches." if filtered else "No sessions yet. See it at work with `cortext demo`.")
    for line in told:
        print(terminal.line(f"Note: {line}"), file=sys.stderr)
    return 0


def _times(options: Namespace) -> tuple[str, str]:
    """`--after` and `--before` as timestamps."""
    if not options.after and not options.before:
        return "", ""
    from cortext.services.search_times import timestamps

    times = timestamps(options.after, options.before)
    return times.get("after", ""), times.get("before", "")


def print_json(rows: list[Row]) -> None:
    """A JSON array of sessions."""
    import json

    from cortext.services.listing import row_json

    print(json.dumps([row_json(row) for row in rows], ensure_ascii=False, indent=2))


def print_table(found: list[tuple[Any, ...]]) -> None:
    """The table of sessions, each with these SHOWN and its store; its rows are what numbers mean from now on."""
    print(session_table([cells[:-1] for cells in found]))
    shown.remember(PROGRAM, ((cells[-1], cells[0]) for cells in found))


def session_table(found: list[tuple[Any, ...]]) -> str:
    """The table of sessions, each with these SHOWN; damage is marked."""
    ids, types, tools, statuses, times, counts, titles, damage = zip(*found, strict=True)
    columns = (
        ids,
        types,
        each(lambda tool: tool or "-", tools),
        shown_statuses(statuses, damage),
        clock.Ago().of_all(times),
        each(str, counts),
        titles,
    )
    heads = ("ID", "TYPE", "TOOL", "STATUS", "LAST ACTIVE", "MESSAGES", "TITLE")
    return columns_table(heads, columns, styles=("cyan", "", "", "", "dim", "", ""))
