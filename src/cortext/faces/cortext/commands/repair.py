"""`cortext repair`: repair a damaged session."""

from __future__ import annotations

from argparse import ArgumentParser

import msgspec

from cortext.faces.cortext.commands._which import HELP_ID, named, which
from cortext.model.amounts import amount
from cortext.safety import terminal
from cortext.services.workspace.merge_driver import was_conflict
from cortext.wiring.stores import Stores


def parser() -> ArgumentParser:
    """Return the parser of this command."""
    made = ArgumentParser(
        prog="cortext repair",
        description="Repair a damaged session: every complete message stays, the bytes that cannot be read move to a "
        ".quarantine file beside the log, and the report says where they were. Nothing is thrown away.",
        epilog="example:  cortext repair 014 --dry-run",
    )
    made.add_argument("session", help=HELP_ID)
    made.add_argument("-n", "--dry-run", action="store_true", help="only report what would be done")
    made.add_argument("--json", action="store_true", help="print the report as JSON")
    return made


def run(arguments: list[str]) -> int:
    """Repair the session, or in a dry run only report."""
    options = parser().parse_args(arguments)
    found = which(Stores(), options.session, words=False)
    report = found.store.repair(found.session.id, dry_run=options.dry_run)
    if options.json:
        print(msgspec.json.format(msgspec.json.encode(report), indent=2).decode())
        return 0
    if not report.damage:
        print(terminal.line(f"{named(found)}: not damaged ({amount(report.kept_messages, 'message')})."))
        return 0
    for item in report.damage:
        print(terminal.line(f"  {item.file} at byte {item.offset}, {item.length} bytes: {item.reason}"))
    would = "would be " if report.dry_run else ""
    kept = f"{amount(report.kept_messages, 'message')} {would}kept"
    quarantined = f"{report.quarantined_bytes} bytes {would}quarantined"
    print(terminal.line(f"{named(found)}: {kept}, {quarantined}."))
    if report.changed and was_conflict(report.damage):
        print("It contains both sides of the merge. Finish the merge: git add conversations && git commit")
    if report.changed and report.quarantine:
        print(terminal.line(f"What could not be read is in {report.quarantine}"))
    return 0
