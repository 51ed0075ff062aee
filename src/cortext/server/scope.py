"""Which sessions a store may see, as conditions of its statements, and the audit of what was done through shares.

Every statement that finds a session by its id contains LIVE, one that finds many contains LISTED, one that begins to
write WRITABLE, and one that writes under a lease HELD. A scope replaces them by its own conditions, so one place
decides what belongs to whom. Rows that hang on a session (messages, notes) are found by its life, which only such a
statement returns. An entry of the audit is written by the client, in the transaction of the change. A role that sends
SQL of its own leaves no entry.
"""

from __future__ import annotations

import secrets
import time
from functools import cache

from cortext.errors import NotShared
from cortext.model import clock
from cortext.server.connection import Connections
from cortext.server.driver import Connection

LIVE = "<live>"
LISTED = "<listed>"
WRITABLE = "<writable>"
HELD = "<held>"
THROUGH_SHARE = " of "  # in the name of a holder, before a person who writes through a share
_NAMES_SECONDS = 60.0  # how long the groups of a role are remembered

Values = tuple[object, ...]


class Own:
    """The sessions of one owner in one space."""

    _LIVE = "session_id = %s AND space = %s AND owner = %s AND deleted_at IS NULL"
    _LISTED = "space = %s AND owner = %s AND deleted_at IS NULL"
    _WRITABLE = _LIVE
    _HELD = "session_id = %s AND life = %s AND fence = %s AND owner = %s AND deleted_at IS NULL"
    audited = False  # whether what is written here is noted in the audit

    def __init__(self, connections: Connections, space: str) -> None:
        self.connections, self.space = connections, space

    @property
    def owner(self) -> str:
        """Who these sessions belong to."""
        return self.connections.owner

    @property
    def whose(self) -> str:
        """What is added to the name of a process that holds a session."""
        return ""

    def sql(self, template: str) -> str:
        """Return a statement with the conditions of this scope."""
        return _filled(template, self._LIVE, self._LISTED, self._WRITABLE, self._HELD)

    def one(self, session_id: str) -> Values:
        """Return the values of LIVE."""
        return session_id, self.space, self.owner

    def all(self) -> Values:
        """Return the values of LISTED."""
        return self.space, self.owner

    def writable(self, session_id: str) -> Values:
        """Return the values of WRITABLE."""
        return self.one(session_id)

    def held(self, lease: tuple[str, int, int]) -> Values:
        """Return the values of HELD for a lease: session id, life and fencing number."""
        return (*lease, self.owner)

    def check_write(self, session_id: str) -> None:
        """Raise NotShared if this session may only be read."""


class Shared(Own):
    """The sessions of others, of any space, that are shared with this owner or one of their groups.

    If two people shared sessions with the same id, the newer one counts. A share counts only if the session belongs to
    whoever shared it and is not in their trash.
    """

    _MINE = (
        "FROM cortext.shares h JOIN cortext.sessions s ON s.session_id = h.session_id AND s.life = h.life "
        "AND s.owner = h.owner AND s.deleted_at IS NULL WHERE h.grantee = ANY(%s) AND h.owner <> %s"
    )
    _LIVE = f"session_id = %s AND deleted_at IS NULL AND life = (SELECT max(h.life) {_MINE} AND h.session_id = %s)"
    _LISTED = (
        f"deleted_at IS NULL AND (session_id, life) IN (SELECT h.session_id, max(h.life) {_MINE} GROUP BY h.session_id)"
    )
    _MAY_WRITE = (
        "EXISTS (SELECT 1 FROM cortext.shares w WHERE w.session_id = sessions.session_id AND w.life = sessions.life "
        "AND w.owner = sessions.owner AND w.can_write AND w.grantee = ANY(%s))"
    )
    _WRITABLE = f"{_LIVE} AND {_MAY_WRITE}"
    _HELD = f"session_id = %s AND life = %s AND fence = %s AND deleted_at IS NULL AND {_MAY_WRITE}"
    audited = True

    def __init__(self, connections: Connections) -> None:
        super().__init__(connections, "shared")
        self._names: list[str] = []
        self._asked = 0.0

    @property
    def whose(self) -> str:
        return f"{THROUGH_SHARE}{self.owner}"

    def one(self, session_id: str) -> Values:
        return session_id, self.names(), self.owner, session_id

    def all(self) -> Values:
        return self.names(), self.owner

    def writable(self, session_id: str) -> Values:
        return (*self.one(session_id), self.names())

    def held(self, lease: tuple[str, int, int]) -> Values:
        return (*lease, self.names())

    def can_write(self, session_id: str) -> bool:
        """Whether a share allows to continue the session itself."""
        query = self.sql(f"SELECT 1 FROM cortext.sessions WHERE {WRITABLE}")
        return bool(self.connections.query(query, *self.writable(session_id)))

    def check_write(self, session_id: str) -> None:
        if not self.can_write(session_id):
            raise NotShared(
                f"{session_id} is shared with you for reading only",
                kept="nothing was changed",
                hint=f"continue in a copy of your own: cortext fork {session_id}",
            )

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
def _filled(template: str, live: str, listed: str, writable: str, held: str) -> str:
    for mark, condition in ((LIVE, live), (LISTED, listed), (WRITABLE, writable), (HELD, held)):
        template = template.replace(mark, condition)
    return template


_NOTE = f"""
INSERT INTO cortext.audit (session_id, life, at, entry, actor, owner, action, grantee, detail)
SELECT session_id, life, %s, %s, %s, owner, %s, %s, %s FROM cortext.sessions WHERE {LIVE}
"""


def note(connection: Connection, scope: Own, session_id: str, action: str, grantee: str = "", detail: str = "") -> None:
    """Add an entry to the audit of a session."""
    values = (clock.now(), secrets.token_hex(8), scope.owner, action, grantee, detail, *scope.one(session_id))
    connection.execute(scope.sql(_NOTE).encode(), values)
