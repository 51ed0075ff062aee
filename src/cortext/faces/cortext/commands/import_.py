"""`cortext import`, `sync` and `watch`: import what the AI tools have stored, now or as soon as it changes."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import threading
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from functools import partial

import msgspec

from cortext.config import folders
from cortext.config.load import settings_of
from cortext.errors import NotFound, UsageError
from cortext.faces.terminal.output import folded, note, paint, print_json
from cortext.faces.terminal.progress import Progress
from cortext.faces.terminal.run import Command
from cortext.faces.terminal.table import table
from cortext.io import durable
from cortext.model import clock
from cortext.model.wording import amount
from cortext.safety import terminal
from cortext.services.capture import uncaptured, user_services, watching
from cortext.services.capture.capture import Capture
from cortext.services.capture.first_reading import WITHOUT_CONTENT
from cortext.services.capture.importing import (
    CUT,
    ImportReport,
    ToolReport,
    capture_all,
    lost_in,
    note_failure,
    record_repositories,
    scan,
)
from cortext.services.capture.intake import reason_of
from cortext.services.capture.transcripts import (
    each_passed_over,
    in_folder,
    not_recognised,
    nothing_readable,
    passed_over,
    work_for,
)
from cortext.services.capture.watching import Watching
from cortext.services.workspace import auto_pause, lifecycle
from cortext.wiring import tools
from cortext.wiring.stores import Stores

MOST_FAILURES = 10  # lines for each tool


def import_parser(name: str = "import") -> ArgumentParser:
    """Return the parser."""
    command = ArgumentParser(
        prog=f"cortext {name}",
        description="Import every conversation that your AI tools (see `cortext tools`) have stored on this machine, "
        "word for word, with tool calls. Imported conversations stay when the tool deletes its own. Run it as often as "
        "you like: only what is new is read. The tools' files are never changed.",
        epilog=f"examples:  cortext {name} --from claude  ·  cortext {name} chatgpt-export.zip  ·  "
        "Ctrl-C stops it at any time; the next run continues there.",
    )
    command.add_argument(
        "--from", dest="tool", metavar="TOOL", choices=tools.names(), help="only from this tool: claude, cursor, …"
    )
    command.add_argument(
        "path",
        metavar="PATH",
        nargs="?",
        help="only from this file or folder: a data export of ChatGPT or Claude.ai, a backup, another machine's files",
    )
    command.add_argument("--path", dest="folder", metavar="DIR", help="the same")
    command.add_argument("--json", action="store_true", help="print the report as JSON")
    return command


def run_import(arguments: list[str], name: str = "import") -> int:
    """Import with a progress bar; return 3 if some transcripts could not be captured.

    Raise NotFound if the user named a file or folder in which there is no conversation, or nothing that can be read.
    """
    options = import_parser(name).parse_args(arguments)
    sources = [tools.tool(options.tool)] if options.tool else tools.tools()
    if options.path is not None and options.folder is not None:
        raise UsageError("a path was given twice", kept="nothing was imported", hint="name one, with or without --path")
    path = options.folder if options.path is None else options.path
    if path == "":
        raise UsageError("the path is empty", kept="nothing was imported", hint="name a file or folder, or omit it")
    if path and not os.path.exists(path):
        raise NotFound(f"no such file or folder: {path}", hint="name a folder, a transcript or an exported archive")
    reports = ImportReport()

    def failed(tool: str, path: str, error: Exception) -> None:
        note_failure(reports, tool, "", path, reason_of(error))

    work, unknown = in_folder(sources, path, failed, tools.tools()) if path else (scan(sources, reports), [])
    if path and not work and not reports.tools:
        raise not_recognised(sources, path)
    stores = Stores()
    capture = stores.capture()
    capture.remember_all()
    stopped = False
    with Progress("Importing", sum(max(1, transcript.size) for _, transcript in work)) as bar:
        try:
            with closing(capture_all(capture, work, reports, are_named=bool(path))) as captured:
                for done in captured:
                    bar.step(max(1, done.size))
        except KeyboardInterrupt:
            stopped = True
    uncaptured.forget_missing()
    reports.alarms.extend(capture.check_smaller(tools.tool))
    record_repositories(capture.home, stores.listing().index)
    for line in [*reports.notes, *save_grown(capture, reports)]:
        print(terminal.line(f"cortext: {line}"), file=sys.stderr)
    for place in [place for report in reports.tools.values() for place in report.counts.places if place.endswith(CUT)]:
        print(
            terminal.line(f"cortext: {place}; what precedes it is imported: copy or download it again"), file=sys.stderr
        )
    if path and unknown:
        print(terminal.line(f"cortext: {passed_over(sources, path, unknown)}"), file=sys.stderr)
    if options.json:
        if unknown:
            reports.tools[""] = ToolReport(tool="", failed=each_passed_over(unknown))
        print(msgspec.json.format(msgspec.json.encode(list(reports.tools.values())), indent=2).decode())
    else:
        print_reports(list(reports.tools.values()), stopped=stopped)
    if path and not stopped and work and all(r.empty == r.transcripts for r in reports.tools.values()):
        lost = [lost_in(report.counts) for report in reports.tools.values()]
        raise nothing_readable(path, ", ".join(filter(None, lost)))
    return 130 if stopped else 3 if unknown or any(report.failed for report in reports.tools.values()) else 0


def offer() -> None:
    """If the AI tools have conversations here, ask whether to import them now, unless the user has declined it once."""
    declined = os.path.join(folders.state(), "import-declined")
    if os.path.exists(declined) or not (total := _not_imported()):
        return
    print(folded(f"Your AI tools have {total}. Nothing is imported yet."))
    try:
        answer = input("Import now? The tools' own files are not changed. [Y/n] ")
    except EOFError:
        answer = "n"
    if answer.strip().lower() in ("", "y", "yes"):
        run_import([])
    else:
        durable.ensure_folder(folders.state())
        durable.replace_file(declined, [clock.now().encode()])


def offered() -> str:
    """Return what is said where nothing is stored, if the AI tools have conversations here; else empty."""
    total = _not_imported()
    return f"Nothing is imported yet: `cortext import` reads {total}." if total else ""


def _not_imported() -> str:
    found = Counter(tool.title for tool, _ in work_for(tools.tools(), lambda *_: None))
    of_each = ", ".join(f"{title} {count:,}" for title, count in found.most_common())
    return f"{amount(sum(found.values()), 'conversation')} on this machine ({of_each})" if found else ""


def save_grown(capture: Capture, reports: ImportReport) -> list[str]:
    """Save conversations of workspaces that grew while none of our hooks ran; return notes for the user."""
    if not reports.grown:
        return []
    grown = [(named_store, name) for root, name in reports.grown if (named_store := capture.store_at(root)) is not None]
    return lifecycle.save_grown(grown, settings_of)


def print_reports(reports: list[ToolReport], *, stopped: bool = False) -> None:
    """Print what was imported, by tool; then what could not be read, by kind."""
    if not reports:
        print("No transcripts of any AI tool (see `cortext tools`) were found on this machine.")
        return
    heads = ("TOOL", "TRANSCRIPTS", "NEW", "CONTINUED", "UNCHANGED", "MESSAGES", "TOOL CALLS")
    rows = [
        (
            r.tool,
            str(r.transcripts),
            str(r.created),
            str(r.updated),
            str(r.unchanged),
            str(r.messages),
            str(r.tool_calls),
        )
        for r in reports
    ]
    print(table(heads, rows, styles=("cyan",)))
    for report in reports:
        for line in _problems(report):
            print(line)
    if any(report.failed for report in reports):
        print("Everything else is kept. `cortext sync` retries these; `cortext doctor` shows what is not captured.")
    for alarm in uncaptured.alarms():
        if alarm.is_part:
            print(f"{paint('!', 'yellow')} {terminal.line(alarm.text)}")
    if stopped:
        print("Stopped. What was imported is safe; run the same command to continue.")


def _problems(report: ToolReport) -> Iterator[str]:
    for label, kinds in (("skipped (unknown kind)", report.counts.unknown), ("damaged", report.counts.damaged)):
        if kinds:
            listed = ", ".join(f"{kind} × {count}" for kind, count in sorted(kinds.items()))
            yield terminal.line(f"{report.tool}: {label}: {listed}")
    empty = report.counts.skipped.get(WITHOUT_CONTENT, 0)
    if empty:
        yield terminal.line(f"{report.tool}: {amount(empty, 'record')} without content skipped")
    for place in report.counts.places[:3]:
        yield paint(terminal.line(f"    {place}"), "dim")
    for failure in report.failed[:MOST_FAILURES]:
        yield terminal.line(f"{report.tool}: could not be captured: {failure}")
    if len(report.failed) > MOST_FAILURES:
        yield f"{report.tool}: … and {len(report.failed) - MOST_FAILURES} more"


def watch_parser() -> ArgumentParser:
    """Return the parser."""
    command = ArgumentParser(
        prog="cortext watch",
        description="Import what changes in your AI tools' own stores as soon as it changes, and pause quiet "
        "conversations, until Ctrl-C. Hooks and imports may run at the same time. With --install it runs in the "
        "background, now and after every login; --uninstall undoes that.",
        epilog="example:  cortext watch --install",
    )
    action = command.add_mutually_exclusive_group()
    action.add_argument("--once", action="store_true", help="import what is new now, and stop")
    action.add_argument("--install", action="store_true", help="run it as a service of this user (systemd or launchd)")
    action.add_argument("--uninstall", action="store_true", help="stop that service and remove it")
    action.add_argument("--status", action="store_true", help="say whether it is running and installed")
    command.add_argument("--json", action="store_true", help="print JSON, one object per line while it watches")
    return command


def run_watch(arguments: list[str]) -> int:
    """Watch, or do what the options say; return 3 if something could not be captured with --once."""
    options = watch_parser().parse_args(arguments)
    if options.install or options.uninstall or options.status:
        return _service(options.install, options.uninstall, as_json=options.json)
    stop = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stop.set())

    def report(capture: Capture, reports: ImportReport, was_all: bool) -> None:
        _print_round(reports, as_json=options.json)
        if was_all:
            _finish(capture, reports)

    watch = Watching(tools.tools(), lambda: Stores().capture(), report, _complain, stop)
    if options.once:
        return 3 if any(item.failed for item in watch.check_all().tools.values()) else 0
    minutes = settings_of("").workspace.pause_minutes
    auto_pause.start_pausing(lambda: Stores().listing(), settings_of, minutes, stop)
    watch.run(lambda: None if options.json else print("Watching. Ctrl-C stops.", flush=True))
    return 0


def _print_round(reports: ImportReport, *, as_json: bool) -> None:
    """Print a line for each tool that something was captured from, or that failed."""
    for item in reports.tools.values():
        if as_json and (item.messages or item.failed):
            fields = {"time": clock.now(), "tool": item.tool, "new": item.created, "continued": item.updated}
            print(json.dumps({**fields, "messages": item.messages, "failed": item.failed}), flush=True)
        elif item.messages:
            count = amount(item.messages, "message")
            print(terminal.line(f"{clock.minute(clock.now())}  {item.tool}: {count}"), flush=True)
        for line in item.failed:
            _complain(line)
    for line in reports.notes:
        _complain(line)


def _complain(line: str) -> None:
    print(terminal.line(f"cortext: {line}"), file=sys.stderr, flush=True)


def _finish(capture: Capture, reports: ImportReport) -> None:
    """Record the repositories of new sessions, and save conversations that grew without being active: as an import."""
    record_repositories(capture.home, Stores().listing().index)
    for line in save_grown(capture, reports):
        _complain(line)


def _service(install: bool, uninstall: bool, *, as_json: bool) -> int:
    if install:
        watching.require()
        program = shutil.which("cortext")
        command = [program] if program else [sys.executable, "-m", "cortext.faces.cortext.main"]
        service = user_services.install(command, tools.folder_variables())
    else:
        service = user_services.uninstall() if uninstall else user_services.service()
    process = watching.running()
    if as_json:
        fields = {"path": service.path, "installed": service.installed, "problem": service.problem}
        print_json({**fields, "running": bool(process), "process": process})
        return 0
    state = "Installed" if service.installed else "Removed" if uninstall else "Not installed"
    print(terminal.line(f"{state}: {service.path}"))
    if service.problem:
        note(f"the service manager could not be used: {service.problem}")
        if install:
            note("run `cortext watch` yourself, or repeat this where the service manager runs")
    if not install and not uninstall:
        print(f"Running: process {process}." if process else "Not running.")
    return 0


IMPORT = Command(import_parser, run_import)
WATCH = Command(watch_parser, run_watch)
SYNC = Command(partial(import_parser, "sync"), partial(run_import, name="sync"))
