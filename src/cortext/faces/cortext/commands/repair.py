"""`cortext repair`: mend a damaged session."""

from __future__ import annotations

from argparse import ArgumentParser

import msgspec

from cortext.faces.cortext.commands._which import HELP_ID, which
from cortext.safety import terminal
from cortext.services.workspace.merge_driver import was_conflict
from cortext.wiring.stores import Stores


def parser() -> ArgumentParser:
    """The command line."""
    made = ArgumentParser(
        prog="cortext repair",
        description="Mend a damaged session: every whole message stays, the bytes that cannot be read go into "
        "a .quarantine file beside the log, and the report says where they were. Nothing is thrown away.",
    )
    made.add_argument("session", help=HELP_ID)
    made.add_argument("-n", "--dry-run", action="store_true", help="only say what would be done")
    made.add_argument("--json", action="store_true", help="the report as JSON")
    return made


def run(arguments: list[str]) -> int:
    """Repair (or, dry, report)."""
    options = parser().parse_args(arguments)
    found = which(Stores(), options.session, words=False)
    report = found.store.repair(found.session.id, dry_run=options.dry_run)
    if options.json:
        print(msgspec.json.format(msgspec.json.encode(report), indent=2).decode())
        return 0
    if not report.damage:
        print(f"{report.session}: nothing is wrong ({report.kept_messages} messages).")
        return 0
    for item in report.damage:
        print(terminal.line(f"  {item.file} at byte {item.offset}, {item.length} bytes: {item.reason}"))
    would = "would be " if report.dry_run else ""
    kept, aside = f"{report.kept_messages} messages {would}kept", f"{report.quarantined_bytes} bytes {would}put aside"
    print(f"{report.session}: {kept}, {aside}.")
    if report.changed and was_conflict(report.damage):
        print("Both sides of the merge are in it. Finish the merge: git add conversations && git commit")
    if report.changed and report.quarantine:
        print(terminal.line(f"What could not be read is in {report.quarantine}"))
    return 0
