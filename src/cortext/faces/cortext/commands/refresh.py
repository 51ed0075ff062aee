"""`cortext refresh`: what a command did not wait for. Started in the background by other commands, not by people."""

from __future__ import annotations

import subprocess
import sys

from cortext.wiring.stores import Stores


def run(arguments: list[str]) -> int:
    """Compare every session's files with the list; with --search, finish the search index too."""
    stores = Stores()
    stores.listing().refresh_all()
    if "--search" in arguments:
        stores.search().refresh(patient=True)  # where another process is at it already, there is nothing to do
    return 0


def in_background(*options: str) -> None:
    """Start it in a process of its own that nobody waits for."""
    subprocess.Popen(
        [sys.executable, "-m", "cortext.faces.cortext.main", "refresh", *options], stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
