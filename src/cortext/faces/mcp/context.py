"""What a call works on: current settings, list and search. Used by one thread only."""

from __future__ import annotations

import time
from collections.abc import Callable

from cortext.faces.mcp.pages import SMALLEST_BUDGET
from cortext.services.library.listing import Listing
from cortext.services.library.recall import Recall
from cortext.services.library.search import Search, UpdateResult
from cortext.services.library.sources import incomplete_line
from cortext.wiring.stores import Stores

BACKGROUND_INTERVAL = 600.0  # seconds between two background processes


class Context:
    """Stores and search for a server that runs as long as its AI tool, while settings and workspaces change.

    Call `refresh` before each use.
    """

    def __init__(self, folder: str, later: Callable[[], None]) -> None:
        self._folder, self._later = folder, later
        self._locations: list[tuple[str, str, bool]] | None = None
        self.stores: Stores
        self.listing: Listing
        self._search: Search | None = None
        self._updated: UpdateResult | None = None  # how far the index is, if this call searched
        self.problem = ""  # what is wrong with the session that this call read
        self.shown: list[tuple[str, str]] | None = None  # the sessions of the last list, for row numbers
        self.cited: dict[str, str] = {}  # the store of each session that was quoted: a clone has the same id
        self._started_at = -BACKGROUND_INTERVAL
        self.client = ""  # how the calling program names itself

    def refresh(self, *, only_reads: bool = True) -> None:
        """Read the settings again, and reopen the stores if their locations changed.

        Raises ConfigError or UnsafePath if the workspace's settings file is broken, except for a call that only reads.
        """
        self.stores = Stores(self._folder, only_reads=only_reads)
        locations = [(location.kind, location.root, location.exists) for location in self.stores.locations()]
        if locations != self._locations:
            self.listing = self.stores.listing().reachable()
            self._search = None
            self._locations = locations
        self._updated, self.problem = None, ""
        for listing in self._listings():
            listing.ask_again()
        self._finish_later(self.listing.refresh())

    def _finish_later(self, due: bool) -> None:
        """Leave slow work to a background process, but not too often."""
        if due and time.monotonic() - self._started_at >= BACKGROUND_INTERVAL:
            self._started_at = time.monotonic()
            self._later()

    def _listings(self) -> list[Listing]:
        return [self.listing, self._search.listing] if self._search is not None else [self.listing]

    @property
    def missing(self) -> list[str]:
        """Why sessions are missing in the answer to this call: the servers that did not answer."""
        found = [error.message for listing in self._listings() for error in listing.away.values()]
        return list(dict.fromkeys(found))

    def incomplete(self, damaged: int | None) -> str:
        """Return why the answer to this call may lack something; None damaged sessions: of all that it searched."""
        if damaged is None:
            damaged = self._search.damaged() if self._updated is not None and self._search is not None else 0
        is_current = self._updated is None or self._updated.is_current
        return incomplete_line(self.missing, is_current=is_current, damaged=damaged)

    @property
    def budget(self) -> int:
        """The largest size of an answer, in tokens."""
        return max(SMALLEST_BUDGET, self.stores.settings.mcp.tokens)

    @property
    def recall(self) -> Recall:
        """Queries over the past sessions."""
        return Recall(self.listing, self.search)

    def search(self) -> Search:
        """Return the search, up to date."""
        if self._search is None:
            self._search = self.stores.search().reachable()
        self._updated = self._search.refresh()
        self._finish_later(self._updated.has_more)
        return self._search
