"""`cortext touched`: the conversations that read or changed a file."""

from __future__ import annotations

import sys
from argparse import ArgumentParser

from cortext.faces.cortext.commands._finding import bring_up_to_date
from cortext.faces.terminal.args import Help, count
from cortext.faces.terminal.output import print_json, report_missing
from cortext.faces.terminal.reading import stores_for
from cortext.faces.terminal.style import folded, paint
from cortext.model import clock
from cortext.safety import terminal


def parser() -> ArgumentParser:
    """Return the parser of this command."""
    made = ArgumentParser(
        prog="cortext touched",
        formatter_class=Help,
        description="List the conversations that read or changed a file, under any name that it had in git, the latest "
        "first. The file need not exist any more. Exits with 1 if there is none.",
        epilog="example:  cortext touched src/pond.py --changed",
    )
    made.add_argument("file", metavar="FILE", help="the file")
    made.add_argument("--changed", action="store_true", help="only conversations that changed it")
    made.add_argument("--limit", type=count, default=20, metavar="N", help="at most N conversations (default: 20)")
    made.add_argument("--json", action="store_true", help="print a JSON array")
    return made


def run(arguments: list[str]) -> int:
    """Print the conversations."""
    options = parser().parse_args(arguments)
    from cortext.services.origin.json_views import touch_json
    from cortext.services.origin.touched import touched
    from cortext.services.origin.written import Library

    stores = stores_for()
    search = stores.search()
    search.listing.partial = True
    bring_up_to_date(search, exact=True)
    found = touched(Library(stores.listing(), lambda: search), options.file)
    found = [touch for touch in found if touch.changed or not options.changed][: options.limit]
    if options.json:
        print_json([touch_json(touch) for touch in found])
        return report_missing(search.listing.missing) or (0 if found else 1)
    for number, touch in enumerate(found, 1):
        row = touch.row
        head = f"{number}. "
        print(head + paint(folded(terminal.line(row.name), first=len(head), indent=3), "bold"))
        facts = [row.id, row.tool, " and ".join(touch.did), f"last in #{touch.seq}", clock.ago(touch.timestamp)]
        facts += [] if touch.is_sure else ["perhaps another project's"]
        print("   " + paint(folded(terminal.line(" · ".join(filter(None, facts))), first=3, indent=3), "dim"))
    if not found:
        print("No stored conversation touched it.")
        return report_missing(search.listing.missing) or 1
    sys.stdout.flush()
    print("Read one with `cortext show ID`; `cortext why FILE:LINE` asks about a line.", file=sys.stderr)
    return report_missing(search.listing.missing)
