"""What a search reads: sessions by their keys, single messages, and the ids of the messages that are left out."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable

from cortext.errors import CortextError
from cortext.index.search.fuse import At
from cortext.index.search.reading import Picking
from cortext.index.sessions import Row
from cortext.model.message import Message
from cortext.services.library.listing import Listing
from cortext.store.capabilities import Outlines

Known = tuple[Row, int]  # a session, and how many of its messages are in the index


class QueryReading:
    """The sessions and messages of one query. Each is looked up once; neighbours are read only for what is shown."""

    def __init__(
        self,
        listing: Listing,
        sessions: Callable[[Collection[int]], dict[int, tuple[str, str, int]]],
        picking: Picking,
        leave_out: Collection[str],
    ) -> None:
        self._listing, self._sessions, self._picking, self._leave_out = listing, sessions, picking, leave_out
        self._rows: dict[int, Known | None] = {}
        self._messages: dict[tuple[str, str, int], Message] = {}

    def rows(self, keys: Collection[int]) -> dict[int, Known | None]:
        """Return the sessions with these keys, among others; None for those that are gone or not to be shown."""
        missing = set(keys) - self._rows.keys()
        named = self._sessions(missing)
        found = self._listing.index.named([(root, name) for root, name, _ in named.values()])
        for key in missing:
            root, name, count = named.get(key, ("", "", 0))
            row = found.get((root, name))
            shown = row is not None and name not in self._leave_out and root in self._listing.sources
            self._rows[key] = (row, count) if row is not None and shown else None
        return self._rows

    def messages(self, places: Iterable[At]) -> dict[At, Message]:
        """Return messages by session key and number; those that are gone or not shown are left out."""
        wanted: dict[int, list[int]] = {}
        for key, seq in places:
            wanted.setdefault(key, []).append(seq)
        rows = self.rows(wanted.keys())
        found: dict[At, Message] = {}
        for key, numbers in wanted.items():
            known = rows[key]
            if known is not None:
                row, count = known
                source = self._listing.sources[row.root]
                exist = [seq for seq in numbers if seq < count]
                for seq, message in self._picking.picked(source, row.id, row.path, exist).items() if exist else ():
                    found[key, seq] = self._messages[row.root, row.id, seq] = message
        return found

    def message(self, row: Row, seq: int) -> Message | None:
        """Return a message, or None if it is gone."""
        at = (row.root, row.id, seq)
        if at not in self._messages:
            picked = self._picking.picked(self._listing.sources[row.root], row.id, row.path, [seq])
            if seq not in picked:
                return None
            self._messages[at] = picked[seq]
        return self._messages[at]

    def around(self, row: Row, seq: int) -> dict[int, Message]:
        """Return a message and its neighbours by number."""
        return self._picking.around(self._listing.sources[row.root], row.id, row.path, seq)


class LeftOut:
    """The ids of the messages in the sessions that a query leaves out: their copies elsewhere are not shown either.

    A session is read again only after it has changed.
    """

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
