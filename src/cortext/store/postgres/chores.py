"""Which sessions have to be looked after, by the server's own index: what is settled costs nothing to pass over.

A session says how far each chore has come (`…_before`). Who appends to it marks it as due, who settles it takes the
mark away.
"""

from __future__ import annotations

from cortext.store.postgres.connection import Connections
from cortext.store.postgres.lease import LIVE

# The columns of each chore: whether something is due, and how far it has come. And what is due beside the log itself.
COLUMNS = {"embed": ("due_embed", "embedded_before"), "summarise": ("due_summarise", "summarised_before")}
_BESIDE = {"embed": " OR (summary <> '' AND summary_vector IS NULL)", "summarise": ""}
AT_ONCE = 500


class ServerChores:
    """What is to be looked at in one space of a server."""

    def __init__(self, connections: Connections, space: str) -> None:
        self._connections, self._space = connections, space

    def due(self, chore: str) -> list[tuple[str, int, str]]:
        """Ids of sessions, the end of their log, their last activity: those that wait longest, so many at a time."""
        query = f"""
        SELECT session_id, next_seq, last_active FROM cortext.sessions
        WHERE space = %s AND deleted_at IS NULL AND {COLUMNS[chore][0]} AND message_count > 0
        ORDER BY last_hour, last_active LIMIT {AT_ONCE}
        """
        return [(row[0], row[1], row[2]) for row in self._connections.query(query, self._space)]

    def settled(self, chore: str, session_id: str, end: int) -> None:
        """Nothing is left to do up to this end of the log. What was appended since is due still."""
        due, done = COLUMNS[chore]
        query = f"""
        UPDATE cortext.sessions SET {done} = %s, {due} = next_seq > %s{_BESIDE[chore]}
        WHERE {LIVE} AND {done} <= %s RETURNING life
        """
        self._connections.query(query, end, end, session_id, self._space, end)
