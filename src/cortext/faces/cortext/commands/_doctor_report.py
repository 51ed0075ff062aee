"""The report of `cortext doctor` if anything is stored."""

from __future__ import annotations

import msgspec

from cortext.faces.terminal.style import folded, paint
from cortext.model.amounts import amount
from cortext.safety import terminal
from cortext.services.capture.rescue import Rescue
from cortext.services.workspace.doctor import StoreReport, examine, purge_findings, uncaptured_findings
from cortext.services.workspace.installed_tools import detect_all, untested
from cortext.services.workspace.known import PROGRAM
from cortext.services.workspace.requirements import workspace_findings
from cortext.wiring.stores import WORKSPACE, Stores
from cortext.wiring.tools import tools as all_tools


def run_full(*, as_json: bool) -> int:
    """Examine every store and print the report; return 3 if something is damaged."""
    stores = Stores()
    tools = all_tools()
    examined = []
    for store in stores.all():
        examined.append(examine(store))
        if store.kind == WORKSPACE:
            examined[-1].findings += workspace_findings(store, tools, PROGRAM)
    examined += uncaptured_findings()
    examined += purge_findings(Rescue(stores.capture, tools).warnings)
    findings = [finding for report in examined for finding in report.findings]
    damaged = any(finding.level == "damage" for finding in findings)
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
        result = "Nothing is damaged; see the warnings above." if findings else "No problems found."
        print("Something is damaged: run the commands above." if damaged else result)
    return 3 if damaged else 0


def _print(report: StoreReport) -> None:
    mark = paint("✗", "red") if any(f.level == "damage" for f in report.findings) else paint("✓", "green")
    name = paint(terminal.line(report.store), "bold")
    sessions, messages = amount(report.sessions, "session"), amount(report.messages, "message")
    print(f"{mark} {name} ({report.kind}): {sessions}, {messages}")
    print(paint(f"    {terminal.line(report.path)}", "dim"))
    for finding in report.findings:
        colour = "red" if finding.level == "damage" else "yellow"
        what = f"{finding.session}: {finding.what}" if finding.session else finding.what
        text = folded(terminal.line(what), first=len(f"    {finding.level}  "), indent=12)
        print(f"    {paint(finding.level, colour)}  {text}")
        if finding.todo:
            text = folded(terminal.line(finding.todo), first=len("            do: "), indent=16)
            print(f"            {paint('do:', 'dim')} {text}")
