"""Which sessions each background chore has processed, and the state they were in, so that no work is repeated.

A table next to the session list. If it is lost, every session is checked once more, but no work is repeated: the
results are in the sessions themselves.
"""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

from cortext.index.database import connect

EMBED, SUMMARISE = "embed", "summarise"

# One row per session, one column per chore: joining with `session` in key order costs a quarter of separate lookups.
_TABLE = """
CREATE TABLE IF NOT EXISTS care (root TEXT, id TEXT, embed TEXT, summarise TEXT, PRIMARY KEY (root, id)) WITHOUT ROWID
"""
_DUE = """
SELECT session.id, session.signs, session.last_active FROM session NOT INDEXED
LEFT JOIN care ON care.root = session.root AND care.id = session.id
WHERE session.root = ? AND session.message_count > 0 AND session.damage = 0 AND care.{chore} IS NOT session.signs
"""
_SETTLED = """
INSERT INTO care (root, id, {chore}) VALUES (?, ?, ?) ON CONFLICT (root, id) DO UPDATE SET {chore} = excluded.{chore}
"""


class Due(NamedTuple):
    """A session that a chore has to check, with the current fingerprint of its files."""

    id: str
    signs: str
    last_active: str


class BackgroundJobs:
    """The jobs that are due in the sessions of one store."""

    def __init__(self, folder: str, root: str) -> None:
        self._database: sqlite3.Connection = connect(folder)
        self._database.execute(_TABLE)
        self._root = root

    def due(self, chore: str) -> list[Due]:
        """Return the sessions whose files changed since this chore was last recorded as done, the oldest first."""
        found = map(Due._make, self._database.execute(_DUE.format(chore=_checked(chore)), (self._root,)))
        return sorted(found, key=lambda due: due.last_active)

    def settled(self, chore: str, session: Due) -> None:
        """Record that this chore is done, for as long as the session's files keep this fingerprint."""
        self._database.execute(_SETTLED.format(chore=_checked(chore)), (self._root, session.id, session.signs))

    def close(self) -> None:
        """Close the database."""
        self._database.close()


def _checked(chore: str) -> str:
    """Return a valid column name; nothing else is ever put into a query."""
    if chore not in (EMBED, SUMMARISE):
        raise ValueError(chore)
    return chore
