"""`cortext doctor` and `tools`: whether every store is well, and which AI tools are installed."""

from __future__ import annotations

import itertools
import os
import sys
from argparse import ArgumentParser

import msgspec

from cortext.errors import StoreUnreachable
from cortext.faces.terminal.args import stores_for
from cortext.faces.terminal.output import folded, paint
from cortext.faces.terminal.run import Command
from cortext.faces.terminal.table import table
from cortext.model.wording import amount
from cortext.safety import terminal
from cortext.services.capture import first_turns, uncaptured
from cortext.services.capture.rescue import Rescue
from cortext.services.capture.transcripts import any_of
from cortext.services.doctor import (
    UNREACHABLE,
    StoreReport,
    examine,
    purge_findings,
    uncaptured_findings,
    workspace_findings,
)
from cortext.services.projects.workspaces import PROGRAM
from cortext.services.workspace.installed_tools import ToolHere, detect_all, overview, untested, when_run
from cortext.wiring.stores import WORKSPACE, Stores
from cortext.wiring.tools import tool, tools


def doctor_parser() -> ArgumentParser:
    """Return the parser."""
    command = ArgumentParser(
        prog="cortext doctor",
        description="Check every store that is known on this machine: read each session completely and report what is "
        "damaged and what to do about it. On a server, the counts of the sessions that were active since the last run "
        "are compared with their messages; --full reads all of them. Nothing is changed, unless you agree to import "
        "conversations that an AI tool is about to delete.",
        epilog="example:  cortext doctor --json  ·  Exit code 0: no damage (maybe warnings); 1: the workspace's "
        "settings file is invalid; 3: something is damaged or could not be captured; 9: a server does not answer.",
    )
    command.add_argument("--full", action="store_true", help="read every session on a server too, not only count")
    command.add_argument("--json", action="store_true", help="print the findings as JSON")
    return command


def run_doctor(arguments: list[str]) -> int:
    """Examine, print, and return 3 if something is damaged."""
    options = doctor_parser().parse_args(arguments) if arguments else None
    as_json, full = (options.json, options.full) if options else (False, False)
    locations = Stores(only_reads=True).locations()
    if not as_json:
        warn_if_not_on_path()
    if not any(location.exists for location in locations) and not uncaptured.failures() and not _any_transcripts():
        print("[]" if as_json else "Nothing is stored yet, so there is nothing to check. Start with `cortext demo`.")
        return 0
    return _run_full(as_json=as_json, full=full)


def _any_transcripts() -> bool:
    """Whether an AI tool has a conversation on this machine, which it may be about to delete."""
    return any_of(tools())


def _run_full(*, as_json: bool, full: bool = False) -> int:
    """Examine every store and print the report; return 3 if something is damaged, 9 if a server does not answer.

    1: the settings file of this workspace cannot be used.
    """
    stores = stores_for() if as_json else Stores(only_reads=True)
    installed = tools()
    examined = []
    away: dict[str, StoreUnreachable] = {}
    for store in stores.all():
        unanswered = stores.ask_git_again(store.root) if store.kind == WORKSPACE else ""
        examined.append(examine(store, full=full, away=away))
        if store.kind == WORKSPACE:
            examined[-1].findings += workspace_findings(store, installed, PROGRAM, unanswered)
    first_turns.judge_smaller(tool)
    examined += uncaptured_findings()
    rescue = Rescue(stores.capture, installed)
    examined += purge_findings(rescue.warnings, rescue.notes)
    findings = [finding for report in examined for finding in report.findings]
    damaged = any(finding.level == "damage" for finding in findings)
    unreachable = any(finding.level == UNREACHABLE for finding in findings)
    if as_json:
        print(msgspec.json.format(msgspec.json.encode(examined), indent=2).decode())
    else:
        for report in examined:
            _print(report)
        for line in stores.settings.warnings():
            print(f"{paint('warning', 'yellow')}  {terminal.line(line)}")
        for adapter, detected in zip(installed, detect_all(installed), strict=True):
            if note := untested(adapter, detected):
                print(f"{paint('!', 'yellow')} {terminal.line(note)}")
        is_fine = not findings and not stores.settings.broken
        result = "No problems found." if is_fine else "Nothing is damaged; see the warnings above."
        result = "A server does not answer; nothing else is damaged." if unreachable else result
        print("Something is damaged: run the commands above." if damaged else result)
        if rescue.work and sys.stdin.isatty() and sys.stdout.isatty():
            from cortext.faces.cortext.commands.rescue import offer  # it imports whatever captures

            offer(rescue)
    if damaged or unreachable:
        return 3 if damaged else StoreUnreachable.exit_status
    return 1 if stores.settings.broken else 0


def _print(report: StoreReport) -> None:
    mark = paint("✓", "green") if all(f.level == "warning" for f in report.findings) else paint("✗", "red")
    name = paint(terminal.line(report.store), "bold")
    counts = f"{amount(report.sessions, 'session')}, {amount(report.messages, 'message')}"
    counts = "not known" if any(finding.level == UNREACHABLE for finding in report.findings) else counts
    print(f"{mark} {name} ({report.kind}): {counts}")
    print(paint(f"    {terminal.line(report.path)}", "dim"))
    if report.since:
        print(paint(f"    counted what was active since {report.since[:13]}h; --full reads everything", "dim"))
    for finding in report.findings:
        colour = "yellow" if finding.level == "warning" else "red"
        what = f"{finding.session}: {finding.what}" if finding.session else finding.what
        text = folded(terminal.line(what), first=len(f"    {finding.level}  "), indent=12)
        print(f"    {paint(finding.level, colour)}  {text}")
        if finding.todo:
            text = folded(terminal.line(finding.todo), first=len("            do: "), indent=16)
            print(f"            {paint('do:', 'dim')} {text}")


def warn_if_not_on_path() -> bool:
    """Warn on standard error if `cortext` is not on PATH, with the fix; return whether it was missing."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    if any(os.access(os.path.join(folder, "cortext"), os.X_OK) for folder in folders):
        return False
    called = os.path.abspath(sys.argv[0])
    program_folder = (
        os.path.dirname(called) if os.path.basename(called) == "cortext" else os.path.dirname(sys.executable)
    )
    print(
        f"{paint('warning', 'yellow', stream=sys.stderr)}: `cortext` is not on PATH: the hooks and the MCP entry of "
        "your AI tools call it by that name,\nand nothing would be captured. Add this to your shell's start-up file:\n"
        f'  export PATH="{terminal.line(program_folder)}:$PATH"',
        file=sys.stderr,
    )
    return True


def tools_parser() -> ArgumentParser:
    """Return the parser."""
    command = ArgumentParser(
        prog="cortext tools",
        description="List the AI tools that cortext supports: the installed version, whether cortext is tested with "
        "it, how many conversations the tool has stored, what cortext can do with it (read its conversations, resume "
        "one in it, be called by its hooks), with how many tools a resume from it and to it was proven, and which "
        "conversations it is about to delete. Tools that are not here are only named.",
        epilog="example:  cortext tools --json",
    )
    command.add_argument("--json", action="store_true", help="print the list as JSON")
    return command


def run_tools(arguments: list[str]) -> int:
    """Print the list of tools; those that are neither installed nor have conversations on one line."""
    options = tools_parser().parse_args(arguments)

    def failed(name: str, error: Exception) -> None:
        print(terminal.line(f"cortext: {name}: cannot list its conversations: {error}"), file=sys.stderr)

    installed = tools()
    endangered = {item.tool: item for item in Rescue(stores_for().capture, installed).warnings}
    rows = overview(installed, failed)
    alarms: dict[str, list[str]] = {}
    for alarm in uncaptured.alarms():
        alarms.setdefault(alarm.tool, []).append(alarm.text)
    if options.json:
        listed = [
            {
                **msgspec.to_builtins(row),
                "endangered": endangered.get(row.name),
                "not_captured": alarms.get(row.name, []),
            }
            for row in rows
        ]
        print(msgspec.json.format(msgspec.json.encode(listed), indent=2).decode())
        return 0
    here = [row for row in rows if row.version or row.conversations]
    if here:
        lines = [
            (
                *(row.name, row.title, row.version or "not installed", _tested(row), str(row.conversations)),
                *(", ".join(row.supported), _pairs(row)),
            )
            for row in here
        ]
        heads = ("NAME", "TOOL", "VERSION", "TESTED", "CONVERSATIONS", "SUPPORTED", "FROM/TO")
        print(table(heads, lines, styles=("cyan",)))
    if others := ", ".join(row.name for row in rows if row not in here and row.name not in alarms):
        print(f"Not installed, and without conversations here: {others}")
    if pairs := {row.name: row.pairs for row in rows if row.pairs is not None}:
        passed, tested = sum(found.passed_to for found in pairs.values()), sum(found.run_to for found in pairs.values())
        possible = sum("resume" in row.supported for row in rows) ** 2
        said = f"{tested} of {possible} pairs, {passed} passed, {when_run(pairs)}"
        print(f"Tested resumes from one tool in another: {said}")
    for text in itertools.chain.from_iterable(alarms.values()):
        print(f"{paint('!', 'yellow')} {terminal.line(text)}")
    for item in endangered.values():
        print(f"{paint('!', 'yellow')} {terminal.line(item.text)}: run `cortext rescue`")
    return 0


def _tested(row: ToolHere) -> str:
    if row.tested_with == "samples":
        return "with samples"
    if row.tested:
        return "yes"
    return f"no ({row.tested_version} is)" if row.version else row.tested_version


def _pairs(row: ToolHere) -> str:
    """Return with how many tools a resume from it, and one to it, was proven."""
    return f"{row.pairs.passed_from}/{row.pairs.passed_to}" if row.pairs else "-"


DOCTOR = Command(doctor_parser, run_doctor)
TOOLS = Command(tools_parser, run_tools)
