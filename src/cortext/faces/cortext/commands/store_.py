"""`cortext store`: show where sessions are kept, copy them from one store to another, and administer a server."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace, _SubParsersAction

import msgspec

from cortext.faces.terminal.progress import Progress
from cortext.faces.terminal.reading import stores_for
from cortext.faces.terminal.style import paint
from cortext.faces.terminal.table import table
from cortext.model.amounts import amount
from cortext.safety import terminal
from cortext.services.library.copying import CopyReport, copy_store, total
from cortext.services.library.stores import NamedStore
from cortext.wiring.administration import admin_address, migrate, policies
from cortext.wiring.copying import copy_pairs, status
from cortext.wiring.stores import Stores


def parser() -> ArgumentParser:
    """Return the parser of this command."""
    made = ArgumentParser(
        prog="cortext store",
        description="Show where sessions are kept, copy them between files and a PostgreSQL server, or administer it.",
        epilog="example:  cortext store copy files server  ·  A store is a name from `cortext store status`; `files` "
        "or `server` for all of them; KIND:FOLDER with KIND workspace, spawn or chat; or "
        "postgresql://user@host/database#home (or #spawn, #chat). Keep passwords out of the command line: use "
        "PGPASSWORD, ~/.pgpass, or the setting `store`.",
    )
    actions = made.add_subparsers(dest="action", metavar="ACTION")
    shown = actions.add_parser("status", help="show every store, and the state of its server")
    shown.add_argument("--json", action="store_true", help="print the status as JSON")
    copy = actions.add_parser(
        "copy",
        help="copy all sessions: cortext store copy FROM TO",
        description="Copy every session of one store into another. Nothing is removed. Run the same command again to "
        "continue an interrupted copy. Every session is verified by count and hash.",
    )
    copy.add_argument("source", metavar="FROM", help="the store to read")
    copy.add_argument("target", metavar="TO", help="the store to write")
    copy.add_argument("--json", action="store_true", help="print the report as JSON")
    _add_administration(actions)
    return made


def _add_administration(actions: _SubParsersAction[ArgumentParser]) -> None:
    """Add what an administrator of the server does."""
    migrate = actions.add_parser(
        "migrate",
        help="bring the tables of the server up to date, as the role that owns them",
        description="Create or change the tables of the server, one statement at a time, as the role that owns them. "
        "The release before this one keeps working. It can be interrupted and repeated. When no process of that "
        "release is left, --finish removes what only it needed.",
        epilog="example:  cortext store migrate postgresql://admin@db.example/cortext --grant cortext_users",
    )
    migrate.add_argument("url", nargs="?", default="", help="the server (default: the setting `store`)")
    migrate.add_argument(
        "--owner", default="", metavar="NAME", help="who gets what has no owner yet (default: this role)"
    )
    migrate.add_argument("--grant", default="", metavar="ROLE", help="let this role or group use the tables")
    migrate.add_argument("--finish", action="store_true", help="also remove what the release before needs")
    migrate.add_argument("-n", "--dry-run", action="store_true", help="print the statements; change nothing")
    migrate.add_argument("--json", action="store_true", help="print the result as JSON")
    policies = actions.add_parser(
        "policies",
        help="print or apply row-level security: the server hides the sessions of others",
        description="Print the statements that make the server itself hide the sessions of others; --apply executes "
        "them, one table at a time, as the role that owns the tables; run it again after an interruption. Services "
        "stay admitted. --remove undoes all of it, or with --service what that role may do.",
        epilog="example:  cortext store policies postgresql://admin@db.example/cortext --apply",
    )
    policies.add_argument("url", nargs="?", default="", help="the server (default: the setting `store`)")
    policies.add_argument("--apply", action="store_true", help="execute the statements")
    policies.add_argument("--remove", action="store_true", help="the statements that remove the policies")
    policies.add_argument(
        "--service", default="", metavar="ROLE", help="let this role act for many owners (the setting store.owner)"
    )
    policies.add_argument("--json", action="store_true", help="print the statements as JSON")


def run(arguments: list[str]) -> int:
    """Print the status, or copy."""
    options = parser().parse_args(arguments)
    if options.action == "copy":
        return _copy(options.source, options.target, as_json=options.json)
    if options.action == "migrate":
        return _migrate(options)
    if options.action == "policies":
        return _policies(options)
    return _status(as_json=options.action == "status" and options.json)


def _copy(source: str, target: str, *, as_json: bool) -> int:
    pairs = copy_pairs(Stores(), source, target)
    reports: list[tuple[NamedStore, NamedStore, CopyReport]] = []
    try:
        for source_store, target_store in pairs:
            with Progress(f"Copying {source_store.label}", total(source_store.store)) as bar:
                report = copy_store(source_store.store, target_store.store, bar.step)
                reports.append((source_store, target_store, report))
    except KeyboardInterrupt:
        print("Stopped. What was copied is safe; run the same command to continue.", file=sys.stderr)
        return 130
    if as_json:
        print(json.dumps([{"from": a.root, "to": b.root, **msgspec.to_builtins(r)} for a, b, r in reports], indent=2))
    else:
        for copied in reports:
            _print(*copied)
    return 3 if any(report.failed for _, _, report in reports) else 0


def _migrate(options: Namespace) -> int:
    def report(statement: str) -> None:
        if not options.json:
            print(terminal.line(f"{' '.join(statement.split())};"))

    done = migrate(
        admin_address(Stores(), options.url),
        owner=options.owner,
        finish=options.finish,
        role=options.grant,
        dry_run=options.dry_run,
        report=report,
    )
    if options.json:
        print(json.dumps(done, indent=2))
    elif options.dry_run:
        print(f"{amount(done['statements'], 'statement')}; nothing was changed.")
    else:
        print(f"Tables of version {done['version']}, {amount(done['statements'], 'statement')}.")
        if not done["finished"]:
            print("When no process of the release before is left: cortext store migrate --finish")
    return 0


def _policies(options: Namespace) -> int:
    address = admin_address(Stores(), options.url)
    found = policies(address, service=options.service, remove=options.remove, apply=options.apply)
    if options.json:
        print(json.dumps({"applied": options.apply, "statements": found}, indent=2))
    elif options.apply:
        print(f"{amount(len(found), 'statement')} applied. Undo: cortext store policies --remove --apply")
    else:
        for statement in found:
            print(terminal.line(f"{statement};"))
    return 0


def _print(source: NamedStore, target: NamedStore, report: CopyReport) -> None:
    print(terminal.line(f"{source.root} → {target.root}"))
    verified, copied = amount(report.sessions, "session"), amount(report.copied, "message")
    print(f"  {verified} verified: {copied} copied, {report.there} already there.")
    for session_id, why in report.failed.items():
        print(terminal.line(f"  {session_id}: not copied: {why}"))


def _status(*, as_json: bool) -> int:
    found = status(stores_for())
    if as_json:
        print(json.dumps(found, ensure_ascii=False, indent=2))
        return 0
    rows = [(str(row["name"]), str(row["kind"]), str(row["sessions"]), str(row["path"])) for row in found["stores"]]
    print(table(("STORE", "KIND", "SESSIONS", "WHERE"), rows, styles=("cyan",)))
    server = found.get("server")
    if server:
        without = "in the local index (this database has no pgvector)"
        meaning = "on the server (pgvector)" if server["vectors"] else without
        encryption = "encrypted" if server["encrypted"] else "not encrypted"
        citus = " with Citus" if server["distributed"] else ""
        policies = {"on": "enforced", "bypassed": "installed, but do not bind this role"}
        print(
            terminal.line(
                f"PostgreSQL {server['version']}{citus}, tables of version {server['schema']}, "
                f"{server['bytes'] >> 20} MiB, {server['round_trip_ms']} ms away, {encryption}. "
                f"Searches words on the server, meaning {meaning}. "
                f"Policies: {policies.get(server['policies'], 'none')}."
            )
        )
    for note in found["notes"]:
        print(f"{paint('Note:', 'yellow')} {terminal.line(note)}")
    return 0
