"""The messages of the sessions that a query leaves out: their copies in other sessions are not shown either."""

from __future__ import annotations

from collections.abc import Collection

from cortext.errors import CortextError
from cortext.services.library.listing import Listing
from cortext.store.capabilities import Outlines


class LeftOut:
    """Knows the ids of these messages; a session is read again only after it has changed."""

    def __init__(self, listing: Listing) -> None:
        self._listing = listing
        self._known: dict[tuple[str, str], tuple[str, frozenset[str]]] = {}

    def messages(self, names: Collection[str]) -> set[str]:
        """Return the ids of the messages in the sessions with these ids, of every store."""
        found: set[str] = set()
        for root in self._listing.sources if names else ():
            for name, fingerprint in self._listing.index.fingerprints(root, names).items():
                known = self._known.get((root, name))
                if known is None or known[0] != fingerprint:
                    known = self._known[root, name] = (fingerprint, self._read(root, name))
                found |= known[1]
        return found

    def _read(self, root: str, name: str) -> frozenset[str]:
        store = self._listing.named_store(root).store
        try:
            return frozenset(
                message.id for message in (store.outline(name) if isinstance(store, Outlines) else store.read(name))
            )
        except (CortextError, OSError):
            return frozenset()  # gone, or behind a link that must not be followed
