"""Sharing sessions with other people of the same server, and the audit of what was done through shares."""

from __future__ import annotations

from cortext.errors import ConfigError, NotFound, SessionNotFound, UsageError
from cortext.model import clock
from cortext.server.driver import Connection
from cortext.server.scope import LIVE, THROUGH_SHARE, Own, Shared, note
from cortext.store.server_capabilities import AuditEntry, Share

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
