"""`cortext list`: what there is."""

from __future__ import annotations

from argparse import ArgumentParser

from cortext.faces.terminal.table import table
from cortext.model import clock
from cortext.safety import terminal
from cortext.services.lifecycle import notices, sweep
from cortext.services.stores import Found, all_sessions
from cortext.services.views import session_row
from cortext.wiring import Wiring

STATUSES = ("active", "paused", "completed", "interrupted", "idle", "damaged")


def parser() -> ArgumentParser:
    """The command line."""
    made = ArgumentParser(
        prog="cortext list",
        description="List sessions of every store on this machine, the last active first.",
    )
    made.add_argument("--type", help="only conversations of this type (brainstorm, debug, …)")
    made.add_argument("--status", choices=STATUSES, help="only sessions with this status")
    made.add_argument("--tool", help="only those held in this AI tool (claude, gemini, opencode, codex)")
    made.add_argument("--agent", help="only those with this agent")
    made.add_argument("--limit", type=int, default=0, metavar="N", help="at most N of them")
    made.add_argument("--here", action="store_true", help="only this workspace")
    made.add_argument("--json", action="store_true", help="a JSON array of sessions")
    return made


def run(arguments: list[str]) -> int:
    """Print the list."""
    options = parser().parse_args(arguments)
    wiring = Wiring()
    places = [wiring.workspace_store()] if options.here else wiring.stores()
    sweep(places, wiring.settings["workspace.pause_minutes"], commit=wiring.settings["workspace.commit"])
    found = all_sessions(places)
    chosen = [item for item in found if _wanted(item, options.type, options.status, options.tool, options.agent)]
    if options.limit > 0:
        chosen = chosen[: options.limit]
    if options.json:
        import json

        print(json.dumps([session_row(item) for item in chosen], ensure_ascii=False, indent=2))
        return 0
    if not chosen:
        print("No session matches." if found else "No sessions yet. See it at work with `cortext demo`.")
        return 0
    print(listing(chosen))
    for notice in notices(found):
        print(terminal.line(f"Note: {notice}"))
    return 0


def _wanted(item: Found, kind: str | None, status: str | None, tool: str | None, agent: str | None) -> bool:
    session = item.session
    return (
        (not kind or session.type == kind)
        and (not status or status in (session.shown_status, "damaged" if session.damage else ""))
        and (not tool or session.origin.tool == tool)
        and (not agent or session.agent == agent)
    )


def listing(items: list[Found]) -> str:
    """The table of sessions; damage is marked."""
    rows = []
    for item in items:
        session = item.session
        status = session.shown_status + (" (damaged)" if session.damage else "")
        rows.append(
            (
                session.id,
                session.type,
                session.origin.tool or "-",
                status,
                clock.ago(session.last_active),
                str(session.message_count),
                session.title or session.summary,
            )
        )
    heads = ("ID", "TYPE", "TOOL", "STATUS", "LAST ACTIVE", "MESSAGES", "TITLE")
    return table(heads, rows, styles=("cyan", "", "", "", "dim", "", ""))
