"""`cortext tools`: which AI tools are installed, and whether their versions are tested."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser

import msgspec

from cortext.faces.terminal.style import paint
from cortext.faces.terminal.table import table
from cortext.safety import terminal
from cortext.services.capture.rescue import Rescue
from cortext.services.workspace.installed_tools import detect_all
from cortext.wiring.stores import Stores
from cortext.wiring.tools import tools as all_tools


def parser() -> ArgumentParser:
    """Return the parser of this command."""
    made = ArgumentParser(
        prog="cortext tools",
        description="List the AI tools that cortext supports: the installed version, whether cortext is tested with "
        "it, how many conversations the tool has stored, and which of them it is about to delete.",
        epilog="example:  cortext tools --json",
    )
    made.add_argument("--json", action="store_true", help="print the list as JSON")
    return made


def run(arguments: list[str]) -> int:
    """Print the list of tools."""
    options = parser().parse_args(arguments)
    rows = []
    tools = all_tools()
    endangered = {item.tool: item for item in Rescue(Stores().capture(), tools).warnings}
    for tool, found in zip(tools, detect_all(tools), strict=True):
        try:
            stored = sum(1 for _ in tool.transcripts())
        except Exception as error:
            stored = 0
            print(terminal.line(f"cortext: {tool.name}: cannot list its conversations: {error}"), file=sys.stderr)
        rows.append(
            {
                "name": tool.name,
                "title": tool.title,
                "version": (found.version or "unknown") if found else "",
                "tested": bool(found and found.tested),
                "tested_version": tool.tested_version,
                "conversations": stored,
                "endangered": msgspec.to_builtins(endangered.get(tool.name)),
            }
        )
    if options.json:
        print(json.dumps(rows, indent=2))
        return 0
    lines = [
        (
            str(row["name"]),
            str(row["title"]),
            str(row["version"] or "not installed"),
            "yes" if row["tested"] else f"no ({row['tested_version']} is)" if row["version"] else "-",
            str(row["conversations"]),
        )
        for row in rows
    ]
    print(table(("NAME", "TOOL", "VERSION", "TESTED", "CONVERSATIONS"), lines, styles=("cyan",)))
    for item in endangered.values():
        print(f"{paint('!', 'yellow')} {terminal.line(item.text)}: run `cortext rescue`")
    return 0
