"""The report of `cortext doctor` where there is something to look at."""

from __future__ import annotations

import msgspec

from cortext.faces.terminal.style import folded, paint
from cortext.safety import terminal
from cortext.services.workspace.doctor import Examined, examine, uncaptured_findings
from cortext.services.workspace.installed_tools import detect_all, untested
from cortext.services.workspace.known import PROGRAM
from cortext.services.workspace.requirements import workspace_findings
from cortext.wiring.stores import WORKSPACE, Stores
from cortext.wiring.tools import tools as all_tools


def run_full(*, as_json: bool) -> int:
    """Examine every store that exists."""
    stores = Stores()
    tools = all_tools()
    examined = []
    for named_store in stores.all():
        examined.append(examine(named_store))
        if named_store.kind == WORKSPACE:
            examined[-1].findings += workspace_findings(named_store, tools, PROGRAM)
    examined += uncaptured_findings()
    findings = [finding for store in examined for finding in store.findings]
    damaged = any(finding.level == "damage" for finding in findings)
    if as_json:
        print(msgspec.json.format(msgspec.json.encode(examined), indent=2).decode())
    else:
        for store in examined:
            _print(store)
        for line in stores.settings.warnings():
            print(f"{paint('warning', 'yellow')}  {terminal.line(line)}")
        for tool, found in zip(tools, detect_all(tools), strict=True):
            if note := untested(tool, found):
                print(f"{paint('!', 'yellow')} {terminal.line(note)}")
        well = "Nothing is damaged; see the warnings above." if findings else "All is well."
        print("Something is damaged: see the commands above." if damaged else well)
    return 3 if damaged else 0


def _print(store: Examined) -> None:
    mark = paint("✗", "red") if any(f.level == "damage" for f in store.findings) else paint("✓", "green")
    name = paint(terminal.line(store.store), "bold")
    sessions, messages = _counted(store.sessions, "session"), _counted(store.messages, "message")
    print(f"{mark} {name} ({store.kind}): {sessions}, {messages}")
    print(paint(f"    {terminal.line(store.path)}", "dim"))
    for finding in store.findings:
        colour = "red" if finding.level == "damage" else "yellow"
        what = f"{finding.session}: {finding.what}" if finding.session else finding.what
        said = folded(terminal.line(what), first=len(f"    {finding.level}  "), indent=12)
        print(f"    {paint(finding.level, colour)}  {said}")
        if finding.todo:
            said = folded(terminal.line(finding.todo), first=len("            do: "), indent=16)
            print(f"            {paint('do:', 'dim')} {said}")


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
