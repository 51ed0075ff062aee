"""`cortext refresh`: work that a command leaves to another process. Started by other commands, not by people."""

from __future__ import annotations

import subprocess
import sys

from cortext.wiring.stores import Stores

ENDED = "--ended"


def run(arguments: list[str]) -> int:
    """Compare every session's files with the list; with --search, finish the search index too.

    With `--ended TOOL KEY`, only tell on standard error what the tool has lost of the session that it had been handed.
    """
    stores = Stores(only_reads=True)
    if arguments[:1] == [ENDED]:
        return _ended(stores, *arguments[1:3])
    listing = stores.listing()
    listing.refresh_all()
    from cortext.services.capture.repositories import record_repositories

    record_repositories(stores.home_store(), listing.index)
    if "--search" in arguments:
        stores.search().refresh(patient=True)  # if another process is doing it already, nothing is left to do
    return 0


def in_background(*options: str) -> None:
    """Start it in a background process."""
    subprocess.Popen(
        command(*options), stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip


def command(*options: str) -> list[str]:
    """Return the command line; the current folder may be a stranger's, and no module is imported from it."""
    return [sys.executable, "-P", "-m", "cortext.faces.cortext.main", "refresh", *options]


def _ended(stores: Stores, tool: str, key: str) -> int:
    from cortext.safety import terminal
    from cortext.services.capture import first_turns
    from cortext.wiring import tools

    first_turns.judge_ended(tools.tool, tool, key)
    capture = stores.capture()
    capture.check_smaller(tools.tool)
    for line in capture.alarms:
        print(terminal.line(f"cortext: {line}"), file=sys.stderr)
    return 0
