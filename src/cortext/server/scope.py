"""Which sessions a store may see, as conditions of its statements; sharing them, and the audit of shares.

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

from cortext.errors import ConfigError, NotFound, NotShared, SessionNotFound, UsageError
from cortext.model import clock
from cortext.server.connection import Connections
from cortext.server.driver import Connection
from cortext.store.server_capabilities import AuditEntry, Share

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


_MINE = f"(session_id, life, owner) IN (SELECT session_id, life, owner FROM cortext.sessions WHERE {LIVE})"
# The conflict is not named, because the key has the owner only since 0008.
_SHARE = f"""
INSERT INTO cortext.shares (session_id, life, grantee, owner, can_write, shared_at)
SELECT session_id, life, %s, owner, %s, %s FROM cortext.sessions WHERE {LIVE} ON CONFLICT DO NOTHING
"""
_PERMIT = f"""
UPDATE cortext.shares SET can_write = %s WHERE {_MINE} AND grantee = %s
RETURNING session_id, owner, grantee, can_write, shared_at
"""
_TITLE = f"SELECT title FROM cortext.sessions WHERE {LIVE}"
_UNSHARE = f"DELETE FROM cortext.shares WHERE {_MINE} AND (%s = '' OR grantee = %s) RETURNING grantee"
# When nobody else may write any more, whoever holds the session through a share no longer does: with policies, they
# could not even release it.
_END_LEASE = f"""
UPDATE cortext.sessions SET fence = fence + 1, holder = NULL, token = NULL, held_until = NULL
WHERE {LIVE} AND holder LIKE '%%{THROUGH_SHARE}%%' AND NOT EXISTS (
    SELECT 1 FROM cortext.shares w WHERE w.session_id = sessions.session_id AND w.life = sessions.life
        AND w.owner = sessions.owner AND w.can_write
)
"""
_FIELDS = "h.session_id, h.owner, h.grantee, h.can_write, h.shared_at, s.title"
_JOINED = "cortext.shares h JOIN cortext.sessions s ON s.session_id = h.session_id AND s.life = h.life"
_GIVEN = f"""
SELECT {_FIELDS} FROM {_JOINED} WHERE h.owner = %s AND s.owner = %s AND s.deleted_at IS NULL
ORDER BY h.shared_at DESC, h.session_id, h.grantee
"""
_RECEIVED = f"""
SELECT {_FIELDS} FROM {_JOINED} WHERE h.grantee = ANY(%s) AND h.owner <> %s AND h.owner = s.owner
    AND s.deleted_at IS NULL ORDER BY h.shared_at DESC, h.session_id, h.grantee
"""
# Of every session that had this id, also of those in the trash.
_AUDIT = """
SELECT a.at, a.actor, a.action, a.grantee, a.detail, coalesce(s.deleted_at, '') FROM cortext.audit a
JOIN cortext.sessions s ON s.session_id = a.session_id AND s.life = a.life
WHERE s.session_id = %s AND s.space = %s AND s.owner = %s ORDER BY a.at, a.entry
"""


def _occupied(session_id: str, grantee: str) -> ConfigError:
    """Return the error for a share whose key, without the owner before 0008, was taken by somebody else."""
    return ConfigError(
        f"another owner has a share of {session_id} with {grantee}, which has no effect but blocks this one",
        kept="nothing was changed",
        hint="ask the owner of the tables to run `cortext store migrate --finish`: keys then have the owner",
    )


class ServerShares:
    """See server_capabilities.Shares: the shares of one owner's sessions in one space."""

    def __init__(self, scope: Own) -> None:
        self._scope = scope
        self._connections = scope.connections

    def share(self, session_id: str, grantee: str, *, write: bool = False) -> Share:
        scope = self._scope
        if grantee == scope.owner:
            raise UsageError(f"the session already belongs to {grantee}", kept="nothing was changed")
        # Behind a service role, the server does not know who there is.
        known = scope.connections.is_service or self._connections.query(
            "SELECT 1 FROM pg_roles WHERE rolname = %s", grantee
        )
        if not known:
            raise NotFound(
                f"there is no role {grantee!r} on the server",
                kept="nothing was changed",
                hint="use the name of a person's role or of a group's",
            )
        at = clock.now()

        def insert(connection: Connection) -> Share | None:
            one = scope.one(session_id)
            with connection.transaction():
                title = connection.execute(scope.sql(_TITLE).encode(), one).fetchone()
                if title is None:
                    return None
                connection.execute(scope.sql(_SHARE).encode(), (grantee, write, at, *one))
                row = connection.execute(scope.sql(_PERMIT).encode(), (write, *one, grantee)).fetchone()
                if row is None:
                    raise _occupied(session_id, grantee)
                connection.execute(scope.sql(_END_LEASE).encode(), one)
                note(connection, scope, session_id, "share", grantee, "write" if write else "read")
            return Share(*row, *title)

        shared = self._connections.run(insert)
        if shared is None:
            raise SessionNotFound(f"there is no session {session_id}", hint="see `cortext list`")
        return shared

    def unshare(self, session_id: str, grantee: str = "") -> list[str]:
        scope = self._scope

        def delete(connection: Connection) -> list[str]:
            with connection.transaction():
                values = (*scope.one(session_id), grantee, grantee)
                removed = [str(row[0]) for row in connection.execute(scope.sql(_UNSHARE).encode(), values)]
                for name in removed:
                    note(connection, scope, session_id, "unshare", name)
                connection.execute(scope.sql(_END_LEASE).encode(), scope.one(session_id))
            return sorted(removed)

        return self._connections.run(delete)

    def given(self) -> list[Share]:
        owner = self._scope.owner
        return [Share(*row) for row in self._connections.query(_GIVEN, owner, owner)]

    def received(self) -> list[Share]:
        names = Shared(self._connections).names()
        return [Share(*row) for row in self._connections.query(_RECEIVED, names, self._scope.owner)]

    def audit(self, session_id: str) -> list[AuditEntry]:
        return [AuditEntry(*row) for row in self._connections.query(_AUDIT, *self._scope.one(session_id))]
