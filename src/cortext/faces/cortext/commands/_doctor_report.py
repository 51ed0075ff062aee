"""The report of `cortext doctor` if anything is stored."""

from __future__ import annotations

import sys

import msgspec

from cortext.errors import StoreUnreachable
from cortext.faces.cortext.commands.rescue import offer
from cortext.faces.terminal.args import stores_for
from cortext.faces.terminal.output import folded, paint
from cortext.model.wording import amount
from cortext.safety import terminal
from cortext.services.capture import first_turns
from cortext.services.capture.rescue import Rescue
from cortext.services.doctor import (
    UNREACHABLE,
    StoreReport,
    examine,
    purge_findings,
    uncaptured_findings,
    workspace_findings,
)
from cortext.services.projects.workspaces import PROGRAM
from cortext.services.workspace.installed_tools import detect_all, untested
from cortext.wiring.stores import WORKSPACE, Stores
from cortext.wiring.tools import tool as tool_of
from cortext.wiring.tools import tools as all_tools


def run_full(*, as_json: bool, full: bool = False) -> int:
    """Examine every store and print the report; return 3 if something is damaged, 9 if a server does not answer.

    1: the settings file of this workspace cannot be used.
    """
    stores = stores_for() if as_json else Stores(only_reads=True)
    tools = all_tools()
    examined = []
    away: dict[str, StoreUnreachable] = {}
    for store in stores.all():
        unanswered = stores.ask_git_again(store.root) if store.kind == WORKSPACE else ""
        examined.append(examine(store, full=full, away=away))
        if store.kind == WORKSPACE:
            examined[-1].findings += workspace_findings(store, tools, PROGRAM, unanswered)
    first_turns.judge_smaller(tool_of)
    examined += uncaptured_findings()
    rescue = Rescue(stores.capture, tools)
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
        for tool, found in zip(tools, detect_all(tools), strict=True):
            if note := untested(tool, found):
                print(f"{paint('!', 'yellow')} {terminal.line(note)}")
        is_fine = not findings and not stores.settings.broken
        result = "No problems found." if is_fine else "Nothing is damaged; see the warnings above."
        result = "A server does not answer; nothing else is damaged." if unreachable else result
        print("Something is damaged: run the commands above." if damaged else result)
        if rescue.work and sys.stdin.isatty() and sys.stdout.isatty():
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
