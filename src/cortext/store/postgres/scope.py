"""Which sessions a store may see, as conditions of its statements.

Every statement that finds a session by its id contains LIVE, and every one that finds many contains LISTED. A scope
replaces both by its own conditions, so one place decides what belongs to whom. Rows that hang on a session (messages,
notes) are found by its life, which only such a statement returns.
"""

from __future__ import annotations

import time
from functools import cache

from cortext.store.postgres.connection import Connections

LIVE = "<live>"
LISTED = "<listed>"
_NAMES_SECONDS = 60.0  # how long the groups of a role are remembered

Values = tuple[object, ...]


class Own:
    """The sessions of one owner in one space."""

    _LIVE = "session_id = %s AND space = %s AND owner = %s AND deleted_at IS NULL"
    _LISTED = "space = %s AND owner = %s AND deleted_at IS NULL"

    def __init__(self, connections: Connections, space: str) -> None:
        self.connections, self.space = connections, space

    @property
    def owner(self) -> str:
        """Who these sessions belong to."""
        return self.connections.owner

    def sql(self, template: str) -> str:
        """Return a statement with the conditions of this scope."""
        return _filled(template, self._LIVE, self._LISTED)

    def one(self, session_id: str) -> Values:
        """Return the values of LIVE."""
        return session_id, self.space, self.owner

    def all(self) -> Values:
        """Return the values of LISTED."""
        return self.space, self.owner


class Shared(Own):
    """The sessions of others, of any space, that are shared with this owner or one of their groups.

    If two people shared sessions with the same id, the newer one counts.
    """

    _MINE = "FROM cortext.shares h WHERE h.grantee = ANY(%s) AND h.owner <> %s"
    _LIVE = f"session_id = %s AND deleted_at IS NULL AND life = (SELECT max(h.life) {_MINE} AND h.session_id = %s)"
    _LISTED = (
        f"deleted_at IS NULL AND (session_id, life) IN (SELECT h.session_id, max(h.life) {_MINE} GROUP BY h.session_id)"
    )

    def __init__(self, connections: Connections) -> None:
        super().__init__(connections, "shared")
        self._names: list[str] = []
        self._asked = 0.0

    def one(self, session_id: str) -> Values:
        return session_id, self.names(), self.owner, session_id

    def all(self) -> Values:
        return self.names(), self.owner

    def names(self) -> list[str]:
        """Return the names that a share with this owner may have: their own and those of their groups."""
        if not self._names or time.monotonic() - self._asked > _NAMES_SECONDS:
            groups = [] if self.connections.is_service else self.connections.query(_GROUPS)
            self._names = list(dict.fromkeys([self.owner, *(row[0] for row in groups)]))
            self._asked = time.monotonic()
        return self._names


# A superuser counts as a member of every role, which does not mean that a share was meant for them.
_GROUPS = """
SELECT r.rolname::text FROM pg_roles r
WHERE pg_has_role(r.oid, 'member') AND NOT (SELECT rolsuper FROM pg_roles WHERE rolname = current_user)
"""


@cache
def _filled(template: str, live: str, listed: str) -> str:
    return template.replace(LIVE, live).replace(LISTED, listed)
