"""`cortext delete`, `restore` and `repair`: the trash, what a tool or git has lost, and what is damaged."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace

import msgspec

from cortext.errors import UsageError
from cortext.faces.cortext.commands._listing import print_notices
from cortext.faces.cortext.commands._which import HELP_ID, named, which
from cortext.faces.terminal.args import stores_for
from cortext.faces.terminal.output import print_fields, print_json, report_missing
from cortext.faces.terminal.run import Command
from cortext.faces.terminal.table import table
from cortext.model import clock
from cortext.model.wording import amount
from cortext.safety import terminal
from cortext.services.library.json_views import restored_json, trashed_json
from cortext.services.library.resolve import resolve_trashed
from cortext.services.library.stores import NamedStore, StoredConversation, Trashed, ask_all
from cortext.services.library.taken_by_git import bring_back
from cortext.services.resume.putting_back import COPY, THERE, put_back
from cortext.services.workspace.merge_driver import was_conflict
from cortext.wiring import tools
from cortext.wiring.stores import Stores


def delete_parser() -> ArgumentParser:
    """Return the parser."""
    command = ArgumentParser(
        prog="cortext delete",
        description="Move a session to the trash of its store. `cortext restore` brings it back.",
        epilog="example:  cortext delete 014",
    )
    command.add_argument("session", help=HELP_ID)
    command.add_argument("--json", action="store_true", help="print what was moved as JSON")
    return command


def run_delete(arguments: list[str]) -> int:
    """Delete one session."""
    options = delete_parser().parse_args(arguments)
    conversation = which(Stores(), options.session, words=False)
    trashed = conversation.store.delete(conversation.session.id)
    if options.json:
        print_json(trashed_json(trashed))
        return 0
    count = amount(conversation.session.message_count, "message")
    print(terminal.line(f"Moved {named(conversation)}, {count}, to the trash."))
    print(f"Undo: cortext restore {trashed.key}")
    return 0


def restore_parser() -> ArgumentParser:
    """Return the parser."""
    command = ArgumentParser(
        prog="cortext restore",
        description="Restore a deleted session from the trash, or bring one back that git took out of its work tree; "
        "without a name, list the trash. With --into, put a "
        "conversation back into an AI tool's own store, so that the tool lists and resumes it again after it deleted "
        "or damaged it; no file of the tool is changed.",
        epilog="example:  cortext restore 014  ·  cortext restore --into claude 014",
    )
    command.add_argument("--into", metavar="TOOL", choices=tools.names(), help="put it back into this tool's own store")
    command.add_argument("-n", "--dry-run", action="store_true", help="with --into: only report what would be done")
    command.add_argument(
        "session", nargs="?", help="the session: its number (014), its id or a prefix of it, or its key in the trash"
    )
    command.add_argument("--json", action="store_true", help="print the trash, or the restored session, as JSON")
    return command


def run_restore(arguments: list[str]) -> int:
    """List the trash, or restore the most recently deleted session of that name."""
    options = restore_parser().parse_args(arguments)
    stores = stores_for(only_reads=options.session is None and not options.into)
    if options.into:
        return _put_back(stores, options)
    items, missing = ask_all(stores.all(), _trash)
    if options.session is None:
        _print_trash(items, as_json=options.json, is_all=not missing)
        return report_missing(missing)
    hint = "list the trash with `cortext restore`, then give the key"
    name = options.session.strip()
    if (back := bring_back(stores.all(), name, stores.workspace)) is not None:
        return _report_back(back, as_json=options.json)
    if missing and not any(name in (item.key, item.session_id) for _, item in items):
        raise next(iter(missing.values()))  # a shorter name may be of a session on the server
    named_store, item = resolve_trashed(items, name, here=stores.workspace, hint=hint)
    session = named_store.store.restore(item.key)
    if options.json:
        print_json(restored_json(session))
        return 0
    count = amount(session.message_count, "message")
    print(terminal.line(f"Restored {named(StoredConversation(named_store, session))}, {count}."))
    return 0


def _report_back(back: tuple[NamedStore, str, int], *, as_json: bool) -> int:
    named_store, session_id, count = back
    session = named_store.store.get(session_id)
    print_notices()
    if as_json:
        print_json({**restored_json(session), "path": session.path})
        return 0
    print(terminal.line(f"Brought {session_id} back into {named_store.root}: {amount(count, 'message')}."))
    print("Nothing was committed: `cortext stop` or git commits it on this branch.")
    return 0


def _put_back(stores: Stores, options: Namespace) -> int:
    """Put a conversation back into a tool's store, and print the receipt."""
    if options.session is None:
        raise UsageError("--into needs a conversation", hint=f"use: cortext restore --into {options.into} 014")
    tool = tools.native_writer(options.into)
    conversation = stores.caught_up(which(stores, options.session, words=False))
    done = put_back(conversation, tool, stores.capture(), dry_run=options.dry_run)
    if options.dry_run and done.how == COPY:  # whether something is in its place shows only when it is put there
        in_the_way = f"if {tool.title} has a damaged file in its place, that stays and a new session is written"
        done.note = "; ".join(filter(None, (done.note, in_the_way)))
    if options.json:
        print_json(msgspec.to_builtins(done))
        return 0
    print(terminal.line(f"{conversation.session.title or conversation.session.id} → {tool.title}: {done.how}"))
    notes = [f"{name:<10} {text}" for name, text in (("because", done.why), ("note", done.note)) if text]
    print_fields([*notes, *(done.receipt.lines() if done.how != THERE else ())])
    if done.key and not options.dry_run:
        print(terminal.line(f"  {tool.title} lists it in {done.project} as {done.key}"))
    return 0


def _trash(named_store: NamedStore) -> list[tuple[NamedStore, Trashed]]:
    return [(named_store, item) for item in named_store.store.trash()]


def _print_trash(items: list[tuple[NamedStore, Trashed]], *, as_json: bool, is_all: bool) -> None:
    if as_json:
        print_json([trashed_json(item, named_store.label) for named_store, item in items])
        return
    if not items:
        print("The trash is empty." if is_all else "The trash of the other stores has nothing.")
        return
    rows = [(item.session_id, clock.ago(item.deleted_at), named_store.label, item.key) for named_store, item in items]
    print(table(("SESSION", "DELETED", "STORE", "KEY"), rows, styles=("cyan", "", "", "dim")))
    print("Restore one with `cortext restore` and its number, id or key.")


def repair_parser() -> ArgumentParser:
    """Return the parser."""
    command = ArgumentParser(
        prog="cortext repair",
        description="Repair a damaged session: every complete message stays, the bytes that cannot be read move to a "
        ".quarantine file beside the log, and the report says where they were. Nothing is thrown away.",
        epilog="example:  cortext repair 014 --dry-run",
    )
    command.add_argument("session", help=HELP_ID)
    command.add_argument("-n", "--dry-run", action="store_true", help="only report what would be done")
    command.add_argument("--json", action="store_true", help="print the report as JSON")
    return command


def run_repair(arguments: list[str]) -> int:
    """Repair the session, or in a dry run only report."""
    options = repair_parser().parse_args(arguments)
    conversation = which(Stores(), options.session, words=False)
    report = conversation.store.repair(conversation.session.id, dry_run=options.dry_run)
    if options.json:
        print(msgspec.json.format(msgspec.json.encode(report), indent=2).decode())
        return 0
    if not report.damage:
        print(terminal.line(f"{named(conversation)}: not damaged ({amount(report.kept_messages, 'message')})."))
        return 0
    for item in report.damage:
        print(terminal.line(f"  {item.file} at byte {item.offset}, {item.length} bytes: {item.reason}"))
    would = "would be " if report.dry_run else ""
    kept = f"{amount(report.kept_messages, 'message')} {would}kept"
    quarantined = f"{report.quarantined_bytes} bytes {would}quarantined"
    print(terminal.line(f"{named(conversation)}: {kept}, {quarantined}."))
    if report.changed and was_conflict(report.damage):
        print("It contains both sides of the merge. Finish the merge: git add conversations && git commit")
    if report.changed and report.quarantine:
        print(terminal.line(f"What could not be read is in {report.quarantine}"))
    return 0


DELETE = Command(delete_parser, run_delete)
RESTORE = Command(restore_parser, run_restore)
REPAIR = Command(repair_parser, run_repair)
