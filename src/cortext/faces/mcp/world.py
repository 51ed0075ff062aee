"""What a call works on: settings, list and search, as they are at this moment. One thread uses it."""

from __future__ import annotations

import time
from collections.abc import Callable

from cortext.faces.mcp.pages import LEAST
from cortext.services.library.listing import Listing
from cortext.services.library.recall import Recall
from cortext.services.library.search import Search
from cortext.wiring.stores import Stores

PATIENCE = 600.0  # seconds between two looks at everything


class World:
    """The server runs as long as the AI tool does: workspaces come and settings change under it. `look` comes first."""

    def __init__(self, folder: str, later: Callable[[], None]) -> None:
        self._folder, self._later = folder, later
        self._locations: list[tuple[str, str, bool]] | None = None
        self.stores: Stores
        self.listing: Listing
        self._search: Search | None = None
        self.shown: list[tuple[str, str]] | None = None  # what the last list of this server showed
        self._asked_at = -PATIENCE

    def look(self) -> None:
        """Read the settings again, and open the stores anew where there are others now."""
        self.stores = Stores(self._folder)
        locations = [(location.kind, location.root, location.exists) for location in self.stores.locations()]
        if locations != self._locations:
            self.listing = self.stores.listing()
            self._search = None
            self._locations = locations
        self.listing.refresh()
        self._finish_later(self.listing.scan_due)

    def _finish_later(self, due: bool) -> None:
        """Leave what takes long to a process that nobody waits for; not again and again."""
        if due and time.monotonic() - self._asked_at >= PATIENCE:
            self._asked_at = time.monotonic()
            self._later()

    @property
    def budget(self) -> int:
        """How many tokens an answer may be."""
        return max(LEAST, self.stores.settings.mcp.tokens)

    @property
    def recall(self) -> Recall:
        """What may be asked of the past."""
        return Recall(self.listing, self.search)

    def search(self) -> Search:
        """Search, up to date."""
        if self._search is None:
            self._search = self.stores.search()
        self._search.refresh()
        self._finish_later(self._search.more_to_do)
        return self._search
