"""`cortext import` and `cortext sync`: import what the AI tools have stored."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import closing
from functools import partial

import msgspec

from cortext.config.trust import settings_of
from cortext.errors import NotFound, UsageError
from cortext.faces.terminal.progress import Progress
from cortext.faces.terminal.run import Command
from cortext.faces.terminal.style import paint
from cortext.faces.terminal.table import table
from cortext.model.amounts import amount
from cortext.safety import terminal
from cortext.services.capture import uncaptured
from cortext.services.capture.capture import Capture, ToolReport
from cortext.services.capture.importing import CUT, capture_all, lost_in, note_failure, scan
from cortext.services.capture.intake import reason_of
from cortext.services.capture.repositories import record_repositories
from cortext.services.capture.storable import WITHOUT_CONTENT
from cortext.services.capture.transcripts import (
    each_passed_over,
    in_folder,
    not_recognised,
    nothing_readable,
    passed_over,
)
from cortext.wiring import tools
from cortext.wiring.stores import Stores

MOST_FAILURES = 10  # lines for each tool


def parser(name: str = "import") -> ArgumentParser:
    """Return the parser of this command."""
    made = ArgumentParser(
        prog=f"cortext {name}",
        description="Import every conversation that your AI tools (see `cortext tools`) have stored on this machine, "
        "word for word, with tool calls. Imported conversations stay when the tool deletes its own. Run it as often as "
        "you like: only what is new is read. The tools' files are never changed.",
        epilog=f"examples:  cortext {name} --from claude  ·  cortext {name} chatgpt-export.zip  ·  "
        "Ctrl-C stops it at any time; the next run continues there.",
    )
    made.add_argument(
        "--from", dest="tool", metavar="TOOL", choices=tools.names(), help="only from this tool: claude, cursor, …"
    )
    made.add_argument(
        "path",
        metavar="PATH",
        nargs="?",
        help="only from this file or folder: a data export of ChatGPT or Claude.ai, a backup, another machine's files",
    )
    made.add_argument("--path", dest="folder", metavar="DIR", help="the same")
    made.add_argument("--json", action="store_true", help="print the report as JSON")
    return made


def run(arguments: list[str], name: str = "import") -> int:
    """Import with a progress bar; return 3 if some transcripts could not be captured.

    Raise NotFound if the user named a file or folder in which there is no conversation, or nothing that can be read.
    """
    options = parser(name).parse_args(arguments)
    sources = [tools.tool(options.tool)] if options.tool else tools.tools()
    if options.path is not None and options.folder is not None:
        raise UsageError("a path was given twice", kept="nothing was imported", hint="name one, with or without --path")
    path = options.folder if options.path is None else options.path
    if path == "":
        raise UsageError("the path is empty", kept="nothing was imported", hint="name a file or folder, or omit it")
    if path and not os.path.exists(path):
        raise NotFound(f"no such file or folder: {path}", hint="name a folder, a transcript or an exported archive")
    reports: dict[str, ToolReport] = {}

    def failed(tool: str, path: str, error: Exception) -> None:
        note_failure(reports, tool, "", path, reason_of(error))

    work, unknown = in_folder(sources, path, failed, tools.tools()) if path else (scan(sources, reports), [])
    if path and not work and not reports:
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
    capture.check_smaller(tools.tool)
    record_repositories(capture.home, stores.listing().index)
    for line in [*([capture.trouble] if capture.trouble else []), *capture.alarms, *save_grown(capture)]:
        print(terminal.line(f"cortext: {line}"), file=sys.stderr)
    for place in [place for report in reports.values() for place in report.counts.places if place.endswith(CUT)]:
        print(
            terminal.line(f"cortext: {place}; what precedes it is imported: copy or download it again"), file=sys.stderr
        )
    if path and unknown:
        print(terminal.line(f"cortext: {passed_over(sources, path, unknown)}"), file=sys.stderr)
    if options.json:
        if unknown:
            reports[""] = ToolReport(tool="", failed=each_passed_over(unknown))
        print(msgspec.json.format(msgspec.json.encode(list(reports.values())), indent=2).decode())
    else:
        print_reports(list(reports.values()), stopped=stopped)
    if path and not stopped and work and all(r.empty == r.transcripts for r in reports.values()):
        lost = [lost_in(report.counts) for report in reports.values()]
        raise nothing_readable(path, ", ".join(filter(None, lost)))
    return 130 if stopped else 3 if unknown or any(report.failed for report in reports.values()) else 0


def save_grown(capture: Capture) -> list[str]:
    """Save conversations of workspaces that grew while none of our hooks ran; return notes for the user."""
    if not capture.grown:
        return []
    from cortext.services.workspace import lifecycle

    grown = [(named_store, name) for root, name in capture.grown if (named_store := capture.store_at(root)) is not None]
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


SYNC = Command(partial(parser, "sync"), partial(run, name="sync"))
