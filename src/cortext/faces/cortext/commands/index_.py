"""`cortext index` and `refresh`: the search index, which can be deleted at any time, and the list of sessions.

`refresh` is started by other commands, not by people (`faces/terminal/run`).
"""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from typing import TYPE_CHECKING

from cortext.faces.terminal.args import Help, stores_for
from cortext.faces.terminal.progress import WorkBar
from cortext.faces.terminal.run import ENDED, Command
from cortext.model.wording import amount
from cortext.safety import terminal
from cortext.services.capture import first_turns
from cortext.services.capture.importing import record_repositories
from cortext.wiring import tools
from cortext.wiring.stores import Stores

if TYPE_CHECKING:
    from cortext.services.library.search import Search


def index_parser() -> ArgumentParser:
    """Return the parser."""
    command = ArgumentParser(
        prog="cortext index",
        formatter_class=Help,
        description="Show, rebuild or clear the search index. It is kept up to date automatically and can be rebuilt "
        "from the sessions at any time.",
        epilog="example:  cortext index rebuild",
    )
    command.add_argument(
        "action",
        nargs="?",
        choices=("status", "rebuild", "clear"),
        default="status",
        help="status: what it contains (default); rebuild: replace it while the old one answers; clear: delete it "
        "until the next search",
    )
    command.add_argument("--json", action="store_true", help="print the status as JSON")
    return command


def run_index(arguments: list[str]) -> int:
    """Rebuild or clear the index, or print its status."""
    options = index_parser().parse_args(arguments)
    search = stores_for().search()
    if options.action == "clear":
        search.clear()
        print("The index is deleted. The next search rebuilds it.")
        return 0
    if options.action == "rebuild":
        bar = WorkBar()
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


def run_refresh(arguments: list[str]) -> int:
    """Compare every session's files with the list; with --search, finish the search index too.

    With `--ended TOOL KEY`, only tell on standard error what the tool has lost of the session that it had been handed.
    """
    stores = Stores(only_reads=True)
    if arguments[:1] == [ENDED]:
        return _ended(stores, *arguments[1:3])
    listing = stores.listing()
    listing.refresh_all()
    record_repositories(stores.home_store(), listing.index)
    if "--search" in arguments:
        stores.search().refresh(patient=True)  # if another process is doing it already, nothing is left to do
    return 0


def _ended(stores: Stores, tool: str, key: str) -> int:
    first_turns.judge_ended(tools.tool, tool, key)
    capture = stores.capture()
    for line in capture.check_smaller(tools.tool):
        print(terminal.line(f"cortext: {line}"), file=sys.stderr)
    return 0


INDEX = Command(index_parser, run_index)
REFRESH = Command(ArgumentParser, run_refresh)  # no options that a person types
