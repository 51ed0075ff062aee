"""What a worker has to look at where the sessions are on a server: by the list, remembered while the process lives.

The same as index.chores, without a table: the server answers the list, and what was done is in the sessions themselves.
"""

from __future__ import annotations

from typing import Protocol

from cortext.index.chores import Due
from cortext.services.listing import Row


class Rows(Protocol):
    """The list of sessions, as far as it is needed here."""

    def rows(self, *, root: str = "") -> list[Row]:
        """The sessions of one store."""


class ListedChores:
    """See index.chores.Chores."""

    def __init__(self, listing: Rows, root: str) -> None:
        self._listing, self._root = listing, root
        self._settled: dict[tuple[str, str], str] = {}

    def due(self, chore: str) -> list[Due]:
        """The sessions that changed since this chore was found done, the oldest first."""
        found = [
            Due(row.id, _signs(row), row.last_active)
            for row in self._listing.rows(root=self._root)
            if row.message_count and not row.damage
        ]
        found = [due for due in found if self._settled.get((chore, due.id)) != due.signs]
        return sorted(found, key=lambda due: due.last_active)

    def settled(self, chore: str, session: Due) -> None:
        """Nothing is left to do, as long as the session stays as it is."""
        self._settled[chore, session.id] = session.signs


def _signs(row: Row) -> str:
    return f"{row.message_count} {row.last_active} {hash(row.summary)}"
