"""`cortext store`: where sessions are kept, and copying them from one place to another."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser

import msgspec

from cortext.faces.terminal.progress import Progress
from cortext.faces.terminal.style import paint
from cortext.faces.terminal.table import table
from cortext.safety import terminal
from cortext.services.library.copying import CopyReport, copy_store, total
from cortext.services.library.stores import NamedStore
from cortext.wiring.copying import copy_pairs, status
from cortext.wiring.stores import Stores


def parser() -> ArgumentParser:
    """The command line."""
    made = ArgumentParser(
        prog="cortext store",
        description="See where sessions are kept, or copy them between files and a PostgreSQL server.",
        epilog="A store is a name from `cortext store status`; `files` or `server` for all of them; KIND:FOLDER with "
        "KIND workspace, spawn or chat; or postgresql://user@host/database#home (or #spawn, #chat). Keep passwords "
        "out of the command line: PGPASSWORD, ~/.pgpass, or the setting.",
    )
    actions = made.add_subparsers(dest="action", metavar="ACTION")
    told = actions.add_parser("status", help="every store, and how its server is")
    told.add_argument("--json", action="store_true", help="as JSON")
    copy = actions.add_parser(
        "copy",
        help="copy all sessions: cortext store copy FROM TO",
        description="Copy every session of one store into another. Nothing is taken away. An interrupted copy is gone "
        "on with by the same command; every session is verified by count and hash.",
    )
    copy.add_argument("source", metavar="FROM", help="the store to read")
    copy.add_argument("target", metavar="TO", help="the store to write")
    copy.add_argument("--json", action="store_true", help="the report as JSON")
    return made


def run(arguments: list[str]) -> int:
    """Tell, or copy."""
    options = parser().parse_args(arguments)
    if options.action == "copy":
        return _copy(options.source, options.target, as_json=options.json)
    return _status(as_json=options.action == "status" and options.json)


def _copy(source: str, target: str, *, as_json: bool) -> int:
    pairs = copy_pairs(Stores(), source, target)
    reports: list[tuple[NamedStore, NamedStore, CopyReport]] = []
    try:
        for begin, end in pairs:
            with Progress(f"Copying {begin.label}", total(begin.store)) as bar:
                reports.append((begin, end, copy_store(begin.store, end.store, bar.step)))
    except KeyboardInterrupt:
        print("Stopped. What was copied is safe; run the same command to go on.", file=sys.stderr)
        return 130
    if as_json:
        print(json.dumps([{"from": a.root, "to": b.root, **msgspec.to_builtins(r)} for a, b, r in reports], indent=2))
    else:
        for begin, end, report in reports:
            _print(begin, end, report)
    return 3 if any(report.failed for _, _, report in reports) else 0


def _print(source: NamedStore, target: NamedStore, report: CopyReport) -> None:
    print(terminal.line(f"{source.root} → {target.root}"))
    print(
        f"  {report.sessions} sessions are there and verified: {report.copied} messages copied, {report.there} found."
    )
    for session_id, why in report.failed.items():
        print(terminal.line(f"  {session_id}: not copied: {why}"))


def _status(*, as_json: bool) -> int:
    found = status(Stores())
    if as_json:
        print(json.dumps(found, ensure_ascii=False, indent=2))
        return 0
    rows = [(str(row["name"]), str(row["kind"]), str(row["sessions"]), str(row["path"])) for row in found["stores"]]
    print(table(("STORE", "KIND", "SESSIONS", "WHERE"), rows, styles=("cyan",)))
    server = found.get("server")
    if server:
        meaning = "by the server (pgvector)" if server["vectors"] else "by the local index (the server has no pgvector)"
        safe = "encrypted" if server["encrypted"] else "not encrypted"
        print(
            terminal.line(
                f"PostgreSQL {server['version']}, tables of version {server['schema']}, {server['bytes'] >> 20} MiB, "
                f"{server['round_trip_ms']} ms away, {safe}. Words are found by the server, meaning {meaning}."
            )
        )
    for note in found["notes"]:
        print(f"{paint('Note:', 'yellow')} {terminal.line(note)}")
    return 0
