"""Work that one of many workers does: claims on it (see claims.Claims), and which sessions need it.

If a worker was suspended for longer than its claim lasts, the fencing number has increased meanwhile. Its writes under
that claim are refused, because the transaction that writes locks and checks the claim's row. A session records how far
each chore (embeddings, summaries) has come (`…_before`). An append marks it as due; `settled` clears that.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

from cortext.errors import TakenOver
from cortext.server.connection import Connections
from cortext.server.driver import Connection
from cortext.server.scope import LISTED, LIVE, Own
from cortext.store.claims import Claim

# Two statements, because distributed engines refuse the server's clock inside ON CONFLICT DO UPDATE. Repeated after a
# lost answer, the number stays: the first attempt may be executed after the second.
_TAKE = """
UPDATE cortext.claims SET fence = CASE WHEN token = %(token)s THEN fence ELSE fence + 1 END, token = %(token)s,
    held_until = now() + %(seconds)s * interval '1 second'
WHERE key = %(key)s AND topic = %(topic)s AND owner = %(owner)s
    AND (held_until IS NULL OR held_until < now() OR token = %(token)s) AND (%(version)s = 0 OR version < %(version)s)
RETURNING fence
"""
_CREATE = """
INSERT INTO cortext.claims (key, topic, owner, fence, token, held_until)
VALUES (%(key)s, %(topic)s, %(owner)s, 1, %(token)s, now() + %(seconds)s * interval '1 second')
ON CONFLICT DO NOTHING RETURNING fence
"""
_FINISHED = "SELECT key, version FROM cortext.claims WHERE key = ANY(%s) AND topic = %s AND owner = %s"
_RENEW = """
UPDATE cortext.claims SET held_until = now() + %s * interval '1 second'
WHERE key = %s AND topic = %s AND fence = %s AND owner = %s RETURNING fence
"""
_FINISH = """
UPDATE cortext.claims SET held_until = NULL, version = greatest(version, %s)
WHERE key = %s AND topic = %s AND fence = %s AND owner = %s RETURNING fence
"""


class ServerClaims:
    """See claims.Claims."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def claim(self, topic: str, key: str, seconds: float, *, version: int = 0) -> Claim | None:
        token = secrets.token_hex(8)  # identifies us if the query is retried after a lost answer
        values = {"key": key, "topic": topic, "token": token, "seconds": seconds, "version": version}
        values["owner"] = self._connections.owner

        def attempt(connection: Connection) -> Claim | None:
            for statement in (_TAKE, _CREATE):
                row = connection.execute(statement.encode(), values).fetchone()
                if row is not None:
                    return Claim(key, topic, row[0])
            return None

        return self._connections.run(attempt)

    def finished(self, topic: str, keys: Sequence[str]) -> dict[str, int]:
        rows = self._connections.query(_FINISHED, list(keys), topic, self._connections.owner)
        return {str(key): int(version) for key, version in rows}

    def renew(self, claim: Claim, seconds: float) -> bool:
        return bool(self._connections.query(_RENEW, seconds, *claim, self._connections.owner))

    def finish(self, claim: Claim, *, version: int = 0) -> bool:
        return bool(self._connections.query(_FINISH, version, *claim, self._connections.owner))


def lock_claim(connection: Connection, owner: str, claim: Claim) -> None:
    """Lock the claim's row until the transaction ends; TakenOver if another worker has the claim."""
    query = b"SELECT fence FROM cortext.claims WHERE key = %s AND topic = %s AND fence = %s AND owner = %s FOR UPDATE"
    if connection.execute(query, (*claim, owner)).fetchone() is None:
        raise TakenOver(
            f"{claim.key} was taken over by another process: this process did not renew its claim in time",
            kept="everything acknowledged before this write",
            hint="nothing to do: the other process continues with it",
        )


# The columns of each chore: whether it is due, and up to which message it is done.
COLUMNS = {"embed": ("due_embed", "embedded_before"), "summarise": ("due_summarise", "summarised_before")}
# What else makes a chore due, apart from new messages.
_ALSO_DUE = {"embed": " OR (summary <> '' AND summary_vector IS NULL)", "summarise": ""}
AT_ONCE = 500


class ServerChores:
    """The chores of the sessions in one space of a server."""

    def __init__(self, scope: Own) -> None:
        self._scope = scope

    def due(self, chore: str) -> list[tuple[str, int, str]]:
        """Return (session id, next message number, last activity) of due sessions, oldest first, at most `AT_ONCE`."""
        query = f"""
        SELECT session_id, next_seq, last_active FROM cortext.sessions
        WHERE {LISTED} AND {COLUMNS[chore][0]} AND message_count > 0
        ORDER BY last_hour, last_active LIMIT {AT_ONCE}
        """
        rows = self._scope.connections.query(self._scope.sql(query), *self._scope.all())
        return [(row[0], row[1], row[2]) for row in rows]

    def settled(self, chore: str, session_id: str, end: int) -> None:
        """Record that a chore is done for the messages below `end`; messages appended since remain due."""
        due, done = COLUMNS[chore]
        query = f"""
        UPDATE cortext.sessions SET {done} = %s, {due} = next_seq > %s{_ALSO_DUE[chore]}
        WHERE {LIVE} AND {done} <= %s RETURNING life
        """
        self._scope.connections.query(self._scope.sql(query), end, end, *self._scope.one(session_id), end)
