"""Which sessions need background work (embeddings, summaries), from the server's index of due sessions.

A session records how far each chore has come (`…_before`). An append marks the session as due; `settled` clears that.
"""

from __future__ import annotations

from cortext.server.scope import LISTED, LIVE, Own

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
