"""`cortext store`: show where sessions are kept, copy them from one store to another, and administer a server."""

from __future__ import annotations

import json
import os
import sys
from argparse import ArgumentParser, Namespace, _SubParsersAction
from collections.abc import Callable
from typing import Any

import msgspec

from cortext.config.load import server_address
from cortext.errors import UsageError
from cortext.faces.terminal.args import stores_for
from cortext.faces.terminal.output import paint
from cortext.faces.terminal.progress import Progress
from cortext.faces.terminal.table import table
from cortext.model.wording import amount
from cortext.safety import terminal
from cortext.safety.credentials import SCHEMES, is_address, mask_address
from cortext.server.copying import CopyReport, copy_store, total
from cortext.services.library.stores import NamedStore
from cortext.wiring.stores import CHAT, HOME, SPAWN, WORKSPACE, Location, Stores, server_location

FILES, SERVER = "files", "server"


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


# ── finding stores by the names that users give them ───


def copy_pairs(stores: Stores, source: str, target: str) -> list[tuple[NamedStore, NamedStore]]:
    """Return the stores to copy, each with its target: one store, or all stores in `files` or on the `server`."""
    groups = {FILES: stores.file_locations, SERVER: stores.server_locations}
    if source in groups and target in groups and source != target:
        if not stores.server_locations():
            raise UsageError(
                "no server is configured", hint='set store = "postgresql://…" in config.toml, or CORTEXT_STORE'
            )
        pairs = [pair for pair in zip(groups[source](), groups[target](), strict=True) if pair[0].exists]
    else:
        location = _find(stores, source, "")
        pairs = [(location, _find(stores, target, location.kind))]
        if not location.exists:
            raise UsageError(f"there is no store at {location.root}", kept="nothing was changed")
    if any(first.root == second.root for first, second in pairs):
        raise UsageError("source and target are the same store", kept="nothing was changed")
    return [(stores.named(first), stores.named(second)) for first, second in pairs]


def _find(stores: Stores, name: str, kind: str) -> Location:
    """Return a store by its label, its address, or its layout and folder.

    `kind` is the kind of store to use if the name is an address that does not say which.
    """
    if is_address(name):
        address, _, wanted = name.rpartition("#")
        if wanted not in (HOME, SPAWN, CHAT):  # the # may be part of a password
            address, wanted = name, ""
        wanted = wanted or (HOME if kind in ("", WORKSPACE) else kind)
        return server_location(address, wanted, mask_address(address))
    layout, colon, folder = name.partition(":")
    if colon and layout in (WORKSPACE, HOME, SPAWN, CHAT):
        return Location(layout, os.path.abspath(os.path.expanduser(folder)), folder)
    matching = [location for location in stores.locations() if name in (location.label, location.root)]
    if len(matching) != 1:
        labels = ", ".join(location.label for location in stores.locations())
        raise UsageError(f"unknown store {name!r}", hint=f"use one of {labels}, or KIND:FOLDER, or an address")
    return matching[0]


def status(stores: Stores) -> dict[str, Any]:
    """Return every store with its number of sessions, the state of the server if there is one, and notes for users."""
    found: dict[str, Any] = {"stores": [], "notes": []}
    concerns: list[tuple[str, str]] = []
    for location in stores.locations():
        if location.address:
            state = stores.server(location).server()
            count = state.sessions
            found["server"] = msgspec.to_builtins(state)
            concerns = state.concerns()
        else:
            count = _count(stores, [location])
        row = {"name": location.label, "kind": location.kind, "path": location.root, "sessions": count}
        found["stores"].append(row)
    found["notes"] += [f"{what}: {todo}" for what, todo in concerns]
    if found.get("server", {}).get("pooled"):
        found["notes"].append(
            "a pooler is in between: statements are not prepared, and lock_timeout, statement_timeout and "
            "idle_in_transaction_session_timeout must be set for the role (ALTER ROLE … SET …)"
        )
    in_files = _count(stores, stores.file_locations()) if "server" in found else 0
    if in_files:
        found["notes"].append(
            f"{in_files} sessions are in files here: copy them with `cortext store copy files server`"
        )
    return found


def _count(stores: Stores, locations: list[Location]) -> int:
    return sum(1 for location in locations if location.exists for _ in stores.open(location).sessions())


# ── administration ───


def admin_address(stores: Stores, given: str) -> str:
    """Return the server to administer: the one that is named, or the one in the settings."""
    address = given or server_address(stores.settings)
    if not address.startswith(SCHEMES):
        raise UsageError(
            "no server is configured", hint="name it: postgresql://admin@host/database, or set CORTEXT_STORE"
        )
    return address


def migrate(
    address: str, *, owner: str, finish: bool, role: str, dry_run: bool, report: Callable[[str], None]
) -> dict[str, int]:
    """Migrate the tables and let `role` use them; return what was done. With `dry_run`, only report the statements."""
    from cortext.server import admin, schema

    if dry_run:
        done = [step.statement for step in admin.pending(address, finish=finish)]
        done += admin.grants(address, role) if role else []
        for statement in done:
            report(statement)
        return {"statements": len(done), "dry_run": True}
    count = 0

    def step(each: schema.Step) -> None:
        nonlocal count
        count += 1
        report(each.statement)

    found = admin.migrate(address, owner=owner, finish=finish, report=step)
    granted = admin.grants(address, role) if role else []
    admin.run(address, [granted])
    for statement in granted:
        report(statement)
    finished = found.version == max(schema.migrations())
    return {"statements": count + len(granted), "version": found.applied, "finished": finished, "dry_run": False}


def policies(address: str, *, service: str, remove: bool, apply: bool) -> list[str]:
    """Return the statements that install or remove the policies; with `apply`, execute them, table by table."""
    from cortext.server import admin

    found = admin.policies(address, service=service, remove=remove)
    if apply:
        admin.run(address, found)
    return [statement for group in found for statement in group]
