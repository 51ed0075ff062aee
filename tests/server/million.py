"""A large store, filled by the server itself, and its search compared with an exact scan of every message."""

from __future__ import annotations

import time

import psycopg

from cortext.server.connection import Limits
from cortext.server.store import PostgresStore
from tests.support.postgres import Postgres

EACH = 100  # messages of a session
QUERIES = ("budget", "budget heron", "heron w31415", "w27182")
_SESSIONS = """
INSERT INTO cortext.sessions (session_id, life, space, owner, created_at, last_active, last_hour, deleted_at, record,
    type, title, status, agent, tool, summary, next_seq, message_count)
SELECT %(prefix)s || n, 1000 + n, 'home', %(owner)s, at, at, left(at, 13), %(deleted)s, '{}',
    '', '', 'paused', '', '', '', %(each)s, %(each)s
FROM (SELECT n, to_char(timestamp '2026-01-01' + n * interval '1 minute', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS at
    FROM generate_series(0, %(count)s / %(each)s - 1) n) AS made
"""
# Words that every message has, that every third and every 50,000th has, and a length that varies: it counts in a rank.
_MESSAGES = """
INSERT INTO cortext.messages (session_id, life, seq, id, role, said_at, tokens, content)
SELECT %(prefix)s || (n / %(each)s), 1000 + n / %(each)s, n %% %(each)s, %(prefix)s || n, 'user',
    '2026-01-01T00:00:00Z', 1,
    concat_ws(' ', repeat('budget ', (1 + n::bigint * 7919 %% 5 * %(often)s)::int),
        CASE WHEN n %% 3 = 0 THEN 'heron' END, 'w' || n * 7919::bigint %% 50000,
        'w' || n * 104729::bigint %% 50000, repeat('and so on ', n * 31 %% 11))
FROM generate_series(0, %(count)s - 1) n
"""
_EXACT = """
WITH texts AS MATERIALIZED (
    SELECT session_id, life, seq, id, to_tsvector('simple', content) AS words FROM cortext.messages
)
SELECT t.id FROM texts t JOIN cortext.sessions s USING (session_id, life)
WHERE s.space = 'home' AND s.owner = %s AND s.deleted_at IS NULL AND t.words @@ plainto_tsquery('simple', %s)
ORDER BY ts_rank(t.words, plainto_tsquery('simple', %s), 33) DESC, s.last_active DESC, t.seq LIMIT 10
"""


def fill(url: str, owner: str, count: int) -> None:
    """Store so many messages of this owner, and a tenth as many in the trash and of somebody else that match better."""
    few = min(10_000, count // 10)
    with psycopg.connect(url, autocommit=True) as connection:
        for prefix, whose, deleted, number, often in (
            ("mine-", owner, None, count, 1),
            ("gone-", owner, "2026-02-02T00:00:00Z", few, 9),
            ("theirs-", "somebody", None, few, 9),
        ):
            values = {"prefix": prefix, "owner": whose, "deleted": deleted, "count": number, "each": EACH}
            connection.execute(_SESSIONS, values)
            connection.execute(_MESSAGES, {**values, "often": often})
        connection.execute("VACUUM ANALYZE cortext.sessions, cortext.messages")


def recall(server: Postgres, count: int) -> str:
    """Compare the ten best of some searches among so many messages with those of an exact scan."""
    url = server.database()
    store = PostgresStore(url, limits=Limits(statement=600.0))
    assert store.listed() == []
    owner = store.scope.owner
    fill(url, owner, count)
    took = []
    with psycopg.connect(url, autocommit=True) as connection:
        for query in QUERIES:
            begin = time.monotonic()
            found = [hit.message.id for hit in store.find(query, 10)]
            took.append(f"{query}: {time.monotonic() - begin:.2f} s")
            exact = [row[0] for row in connection.execute(_EXACT, (owner, query, query))]
            assert found[: len(exact)] == exact and (exact or "w" in query), (query, found, exact)
    store.close()
    return f"the ten best of {count:,} messages equal those of an exact scan ({', '.join(took)})"
