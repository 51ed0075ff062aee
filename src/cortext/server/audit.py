"""The audit of a session: what was done with its shares and through them.

An entry is written by the client, in the transaction of the change. A role that sends SQL of its own leaves no entry.
"""

from __future__ import annotations

import secrets

from cortext.model import clock
from cortext.server.driver import Connection
from cortext.server.scope import LIVE, Own

_NOTE = f"""
INSERT INTO cortext.audit (session_id, life, at, entry, actor, owner, action, grantee, detail)
SELECT session_id, life, %s, %s, %s, owner, %s, %s, %s FROM cortext.sessions WHERE {LIVE}
"""


def note(connection: Connection, scope: Own, session_id: str, action: str, grantee: str = "", detail: str = "") -> None:
    """Add an entry to the audit of a session."""
    values = (clock.now(), secrets.token_hex(8), scope.owner, action, grantee, detail, *scope.one(session_id))
    connection.execute(scope.sql(_NOTE).encode(), values)
