"""`cortext index-later`: finish the search index. Started in the background, not by people."""

from __future__ import annotations

from cortext.wiring.stores import Stores


def run(arguments: list[str]) -> int:
    """Do what a query did not wait for; where another process is at it already, there is nothing to do."""
    stores = Stores()
    stores.listing().look_at_all()
    stores.search().refresh(patient=True)
    return 0
