"""Which sessions have to be looked after, by the server's own index: what is settled costs nothing to pass over.

A session says how far each chore has come (`…_before`), and the server marks it as due when its log went on.
"""

from __future__ import annotations

from cortext.store.postgres_connection import Connections
from cortext.store.postgres_lease import LIVE

# The columns of each chore: how far it has come, and whether something is due.
COLUMNS = {"embed": ("embedded_before", "to_embed"), "summarise": ("summarised_before", "to_summarise")}
AT_ONCE = 500


class ServerChores:
    """What is to be looked at in one space of a server."""

    def __init__(self, connections: Connections, space: str) -> None:
        self._connections, self._space = connections, space

    def due(self, chore: str) -> list[tuple[str, int, str]]:
        """Ids of sessions, the end of their log, their last activity: those that wait longest, so many at a time."""
        query = f"""
        SELECT session_id, next_seq, last_active FROM cortext.sessions
        WHERE space = %s AND deleted_at IS NULL AND {COLUMNS[chore][1]} AND message_count > 0
        ORDER BY active_hour, last_active LIMIT {AT_ONCE}
        """
        return [(row[0], row[1], row[2]) for row in self._connections.query(query, self._space)]

    def settled(self, chore: str, session_id: str, end: int) -> None:
        """Nothing is left to do up to this end of the log. What was appended since is due still."""
        done = COLUMNS[chore][0]
        query = f"UPDATE cortext.sessions SET {done} = %s WHERE {LIVE} AND {done} < %s RETURNING life"
        self._connections.query(query, end, session_id, self._space, end)
