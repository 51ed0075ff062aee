"""Which sessions were looked after, and in which state they were then: nothing is looked at twice for nothing.

A table beside the list of sessions. If it is lost, everything is looked at once more, and nothing is done twice: what
was done is in the sessions themselves.
"""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

from cortext.index.database import connect

EMBED, SUMMARISE = "embed", "summarise"

# One row a session, one column a chore: what a chore last found done is compared with `session` in the order of both
# keys, which costs a quarter of looking each up.
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
    """A session that has to be looked at, and the signs of its files now."""

    id: str
    signs: str
    last_active: str


class Chores:
    """What is to be looked at in the sessions of one store."""

    def __init__(self, folder: str, root: str) -> None:
        self._database: sqlite3.Connection = connect(folder)
        self._database.execute(_TABLE)
        self._root = root

    def due(self, chore: str) -> list[Due]:
        """The sessions whose files changed since this chore was found done, the oldest first."""
        found = map(Due._make, self._database.execute(_DUE.format(chore=_checked(chore)), (self._root,)))
        return sorted(found, key=lambda due: due.last_active)

    def settled(self, chore: str, session: Due) -> None:
        """Nothing is left to do, as long as its files stay as they were when they were looked at."""
        self._database.execute(_SETTLED.format(chore=_checked(chore)), (self._root, session.id, session.signs))

    def close(self) -> None:
        """Let go of the database."""
        self._database.close()


def _checked(chore: str) -> str:
    """The name of a column: nothing else gets into a query."""
    if chore not in (EMBED, SUMMARISE):
        raise ValueError(chore)
    return chore
