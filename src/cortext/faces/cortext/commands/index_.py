"""`cortext index`: the search index, which can be deleted at any time and comes back by itself."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import TYPE_CHECKING

from cortext.faces.cortext.commands._finding import Bar
from cortext.faces.terminal.args import Help
from cortext.safety import terminal
from cortext.wiring.stores import Stores

if TYPE_CHECKING:
    from cortext.services.library.search import Search


def parser() -> ArgumentParser:
    """The command line."""
    made = ArgumentParser(
        prog="cortext index",
        formatter_class=Help,
        description="The search index follows your sessions by itself; these look at it and make it anew.",
    )
    made.add_argument(
        "action",
        nargs="?",
        choices=("status", "rebuild", "clear"),
        default="status",
        help="what it holds (default) · make it anew while the old one answers · delete it, it comes back",
    )
    made.add_argument("--json", action="store_true", help="the status as JSON")
    return made


def run(arguments: list[str]) -> int:
    """Do it, and say what there is."""
    options = parser().parse_args(arguments)
    search = Stores().search()
    if options.action == "clear":
        search.clear()
        print("The index is deleted. The next search makes it anew.")
        return 0
    if options.action == "rebuild":
        bar = Bar()
        try:
            search.rebuild(bar.step)
        finally:
            bar.end()
    return _status(search, as_json=options.json)


def _status(search: Search, *, as_json: bool) -> int:
    status = search.status()
    if as_json:
        print(json.dumps(status._asdict(), ensure_ascii=False, indent=2))
        return 0
    print(f"{status.messages:,} messages of {status.sessions:,} sessions")
    sizes = " · ".join(f"{name} {size / 1e6:,.1f} MB" for name, size in status.bytes.items())
    print(f"size:    {sizes or 'nothing yet'}")
    print(f"meaning: {terminal.line(status.model)}, {status.embedded:,} messages")
    print(f"state:   {'behind; the next search takes in what is new' if status.behind else 'up to date'}")
    print(f"folder:  {terminal.line(status.folder)}")
    return 0
