"""`cortext index`: the search index, which can be deleted at any time and is rebuilt when needed."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from typing import TYPE_CHECKING

from cortext.faces.cortext.commands._finding import Bar
from cortext.faces.terminal.args import Help
from cortext.faces.terminal.reading import stores_for
from cortext.model.amounts import amount
from cortext.safety import terminal

if TYPE_CHECKING:
    from cortext.services.library.search import Search


def parser() -> ArgumentParser:
    """Return the parser of this command."""
    made = ArgumentParser(
        prog="cortext index",
        formatter_class=Help,
        description="Show, rebuild or clear the search index. It is kept up to date automatically and can be rebuilt "
        "from the sessions at any time.",
        epilog="example:  cortext index rebuild",
    )
    made.add_argument(
        "action",
        nargs="?",
        choices=("status", "rebuild", "clear"),
        default="status",
        help="status: what it contains (default); rebuild: replace it while the old one answers; clear: delete it "
        "until the next search",
    )
    made.add_argument("--json", action="store_true", help="print the status as JSON")
    return made


def run(arguments: list[str]) -> int:
    """Rebuild or clear the index, or print its status."""
    options = parser().parse_args(arguments)
    search = stores_for().search()
    if options.action == "clear":
        search.clear()
        print("The index is deleted. The next search rebuilds it.")
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
    print(f"{amount(status.messages, 'message')} of {amount(status.sessions, 'session')}")
    sizes = " · ".join(f"{name} {size / 1e6:,.1f} MB" for name, size in status.bytes.items())
    print(f"size:    {sizes or 'nothing yet'}")
    print(f"meaning: {terminal.line(status.model)}, {amount(status.embedded, 'message')}")
    print(f"state:   {'behind; the next search updates it' if status.behind else 'up to date'}")
    print(f"folder:  {terminal.line(status.folder)}")
    return 0
