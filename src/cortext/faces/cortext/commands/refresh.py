"""`cortext refresh`: slow work that a command leaves to the background. Started by other commands, not by people."""

from __future__ import annotations

import subprocess
import sys

from cortext.wiring.stores import Stores


def run(arguments: list[str]) -> int:
    """Compare every session's files with the list; with --search, finish the search index too."""
    stores = Stores(only_reads=True)
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
        [sys.executable, "-m", "cortext.faces.cortext.main", "refresh", *options], stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
