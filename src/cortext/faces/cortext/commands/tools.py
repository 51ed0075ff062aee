"""`cortext tools`: which AI tools are installed, and whether their versions are tested."""

from __future__ import annotations

import itertools
import sys
from argparse import ArgumentParser

import msgspec

from cortext.faces.terminal.reading import stores_for
from cortext.faces.terminal.style import paint
from cortext.faces.terminal.table import table
from cortext.safety import terminal
from cortext.services.capture import uncaptured
from cortext.services.capture.rescue import Rescue
from cortext.services.workspace.installed_tools import ToolHere, overview
from cortext.wiring.tools import tools as all_tools


def parser() -> ArgumentParser:
    """Return the parser of this command."""
    made = ArgumentParser(
        prog="cortext tools",
        description="List the AI tools that cortext supports: the installed version, whether cortext is tested with "
        "it, how many conversations the tool has stored, what cortext can do with it (read its conversations, resume "
        "one in it, be called by its hooks), with how many tools a resume from it and to it was proven, and which "
        "conversations it is about to delete. Tools that are not here are only named.",
        epilog="example:  cortext tools --json",
    )
    made.add_argument("--json", action="store_true", help="print the list as JSON")
    return made


def run(arguments: list[str]) -> int:
    """Print the list of tools; those that are neither installed nor have conversations on one line."""
    options = parser().parse_args(arguments)

    def failed(name: str, error: Exception) -> None:
        print(terminal.line(f"cortext: {name}: cannot list its conversations: {error}"), file=sys.stderr)

    tools = all_tools()
    endangered = {item.tool: item for item in Rescue(stores_for().capture, tools).warnings}
    rows = overview(tools, failed)
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
    if pairs := [row.pairs for row in rows if row.pairs is not None]:
        passed, run, date = sum(p.passed_to for p in pairs), sum(p.run_to for p in pairs), max(p.date for p in pairs)
        possible = sum("resume" in row.supported for row in rows) ** 2
        print(f"Tested resumes from one tool in another: {run} of {possible} pairs, {passed} passed, last on {date}")
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
