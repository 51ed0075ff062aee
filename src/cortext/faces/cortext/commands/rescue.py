"""`cortext rescue`: import what the AI tools are about to delete, and make them keep it."""

from __future__ import annotations

import sys
from argparse import ArgumentParser
from contextlib import closing

import msgspec

from cortext.errors import CortextError
from cortext.faces.cortext.commands.import_ import print_reports
from cortext.faces.terminal.args import stores_for
from cortext.faces.terminal.output import print_json
from cortext.faces.terminal.progress import Progress
from cortext.safety import terminal
from cortext.services.capture.capture import Capture
from cortext.services.capture.importing import ImportReport, capture_all
from cortext.services.capture.rescue import PurgeWarning, Rescue, restore_settings
from cortext.services.library.taken_by_git import left
from cortext.wiring import tools
from cortext.wiring.stores import Stores


def parser() -> ArgumentParser:
    """Return the parser."""
    command = ArgumentParser(
        prog="cortext rescue",
        description="Import the conversations that your AI tools are about to delete and, if you agree, raise the "
        "settings by which they delete them. Without a terminal to ask on, or with --json, the settings stay as they "
        "are unless you pass --yes. `cortext rescue --undo` restores those settings.",
        epilog="example:  cortext rescue --dry-run",
    )
    command.add_argument("-y", "--yes", action="store_true", help="raise the settings without asking")
    command.add_argument("-n", "--dry-run", action="store_true", help="only report what would be done")
    command.add_argument("--undo", action="store_true", help="restore the settings that were raised")
    command.add_argument("--json", action="store_true", help="print the report as JSON; raise no setting without --yes")
    return command


def run(arguments: list[str]) -> int:
    """Report, import, raise; return 3 if some transcripts could not be captured."""
    options = parser().parse_args(arguments)
    if options.undo:
        return _undo(as_json=options.json, dry_run=options.dry_run)
    stores = stores_for()
    rescue = Rescue(lambda: _with_all_in_memory(stores), tools.tools())
    if not options.json:
        _print_warnings(rescue)
        _print_left(stores)
    asks = sys.stdin.isatty() and not (options.json or options.yes or options.dry_run)
    only_report = not (options.yes or asks)
    if (rescue.work and not options.dry_run) or (rescue.warnings and not only_report):
        Stores()  # raises if the workspace's settings file is broken
    reports = ImportReport()
    if rescue.work and not options.dry_run:
        _import(rescue, reports)
        if not options.json:
            print_reports(list(reports.tools.values()))
    raised = _raise(rescue, dry_run=only_report, ask=asks, quiet=options.json)
    if options.json:
        done = [msgspec.to_builtins(report) for report in reports.tools.values()]
        print_json(
            {"endangered": msgspec.to_builtins(rescue.warnings), "imported": done, "settings": raised}
            | ({"dry_run": True} if options.dry_run else {})
            | ({"settings_unchanged": True} if only_report else {})
        )
    elif raised:
        print(_ending(options.dry_run, only_report))
    return 3 if any(report.failed for report in reports.tools.values()) else 0


def _ending(dry_run: bool, only_report: bool) -> str:
    if dry_run:
        return "Nothing was changed."
    return "No setting was changed: pass --yes to raise it." if only_report else "Undo: cortext rescue --undo"


def offer(rescue: Rescue) -> int:
    """Ask whether to import and to raise the settings, and do it; return 3 if some could not be captured."""
    reports = ImportReport()
    if rescue.work and _agreed(_import_question(rescue), default=True):
        _import(rescue, reports)
        print_reports(list(reports.tools.values()))
    if _raise(rescue, ask=True):
        print("Undo: cortext rescue --undo")
    return 3 if any(report.failed for report in reports.tools.values()) else 0


def _print_warnings(rescue: Rescue) -> None:
    for note in rescue.notes:
        print(terminal.line(f"{note}."))
    for item in rescue.warnings:
        print(terminal.line(f"{item.text}."))
    if not rescue.warnings:
        print("No conversation is about to be deleted that cortext does not keep.")


def _print_left(stores: Stores) -> None:
    """Say which conversations git took out of a work tree: they are kept, and this is how they come back."""
    for store in stores.all():
        for gone in left(store):
            print(terminal.line(f"{gone.session_id}: {gone.text}. Bring it back: cortext restore {gone.session_id}"))


def _import_question(rescue: Rescue) -> str:
    count = len(rescue.work)
    return f"Import {'them' if count > 1 else 'it'} now?"


def _with_all_in_memory(stores: Stores) -> Capture:
    capture = stores.capture()
    capture.remember_all()
    return capture


def _import(rescue: Rescue, reports: ImportReport) -> None:
    total = sum(max(1, transcript.size) for _, transcript in rescue.work)
    with Progress("Importing", total) as bar, closing(capture_all(rescue.capture, rescue.work, reports)) as captured:
        for done in captured:
            bar.step(max(1, done.size))


def _raise(rescue: Rescue, *, dry_run: bool = False, ask: bool = False, quiet: bool = False) -> list[str]:
    """Raise the setting of every tool that deletes; return the settings files that changed or would."""
    changed: list[str] = []
    for tool, item in zip(rescue.purging, rescue.endangered, strict=True):
        if item.is_managed:
            if not quiet:
                print(terminal.line(f"{item.setting} of {item.title} is managed: ask your administrator to raise it."))
            continue
        if ask and not _agreed(f"Set {_setting(item)} so that {item.title} deletes nothing?", default=False):
            continue
        try:
            files = tool.raise_retention(dry_run=dry_run)
        except CortextError as error:  # what was imported is kept, and the other tools have settings of their own
            print(terminal.line(f"cortext: {error.message}"), file=sys.stderr)
            continue
        if files and not quiet:
            print(terminal.line(f"{'Would set' if dry_run else 'Set'} {_setting(item)} ({item.title})."))
        changed += files
    return changed


def _setting(item: PurgeWarning) -> str:
    return f"{item.keeping} in {item.file}"


def _agreed(question: str, *, default: bool) -> bool:
    answer = input(terminal.line(f"{question} [{'Y/n' if default else 'y/N'}] ").rstrip() + " ").strip().lower()
    return answer in ("y", "yes") or (default and not answer)


def _undo(*, as_json: bool, dry_run: bool) -> int:
    restored = restore_settings(tools.tools(), dry_run=dry_run)
    if as_json:
        print_json({"restored": restored})
        return 0
    for path in restored:
        print(terminal.line(f"{'Would restore' if dry_run else 'Restored'} {path}."))
    if not restored:
        print("Nothing to undo: no setting was raised.")
    return 0
