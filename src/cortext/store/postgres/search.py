"""Listing and search by the server, with its own indexes and ranking."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

from cortext.errors import UsageError
from cortext.store.files.lines import BadLine
from cortext.store.postgres import schema as postgres_schema
from cortext.store.postgres.connection import Connections
from cortext.store.postgres.driver import Connection, psycopg
from cortext.store.postgres.rows import MESSAGE, SESSION, from_row, storable
from cortext.store.server_capabilities import ServerState

_FILTERS = ("type", "status", "tool", "agent")
_ORDERS = {
    # The index contains the hour; within an hour the server sorts.
    "last_active": "last_hour DESC, last_active DESC, session_id DESC",
    "created_at": "created_at DESC, session_id DESC",
    "message_count": "message_count DESC, session_id DESC",
    "title": "title DESC, session_id DESC",
}
_RANKED = 2000  # matches that are ranked: ranking more would cost time and change little
_LONGEST = 2000  # characters of a query
_ALL_WORDS = "plainto_tsquery('simple', %s)"
_ANY_WORD = "replace(plainto_tsquery('simple', %s)::text, ' & ', ' | ')::tsquery"

Rows = list[tuple[Any, ...]]


def listed(connections: Connections, space: str, where: Sequence[tuple[str, str]], *, limit: int, order: str) -> Rows:
    """Return the columns SESSION of the sessions that match all filters."""
    if order not in _ORDERS or any(name not in _FILTERS for name, _ in where):
        raise UsageError(f"a server cannot list by {', '.join([order, *(name for name, _ in where)])}")
    conditions = "".join(f" AND {name} = %s" for name, _ in where)
    query = (
        f"SELECT {SESSION} FROM cortext.sessions WHERE space = %s AND deleted_at IS NULL{conditions} "
        f"ORDER BY {_ORDERS[order]}"
    )
    values: list[object] = [space, *(storable(value) for _, value in where)]
    if limit > 0:
        query += " LIMIT %s"
        values.append(limit)
    return connections.query(query, *values)


def find(connections: Connections, space: str, text: str, limit: int) -> Rows:
    """Return the columns SESSION, the columns MESSAGE and a score for each match, best first."""
    words = storable(text)[:_LONGEST]
    rows = _scaled(_matches(connections, space, _ALL_WORDS, words, limit), 0.5, 1.0)
    if len(rows) >= limit:
        return rows
    # Matches of all words rank above matches of any word.
    seen = {(row[0], row[8]) for row in rows}
    others = _scaled(_matches(connections, space, _ANY_WORD, words, limit), 0.0, 0.5)
    return rows + [row for row in others if (row[0], row[8]) not in seen][: limit - len(rows)]


def _matches(connections: Connections, space: str, tsquery: str, words: str, limit: int) -> Rows:
    session = ", ".join(f"s.{name}" for name in SESSION.split(", ")[:7])
    message = ", ".join(f"m.{name}" for name in MESSAGE.split(", "))
    query = f"""
    SELECT * FROM (
        SELECT {session}, coalesce(s.held_until > now(), false), {message}, ts_rank(m.words, {tsquery}, 33) AS score
        FROM cortext.messages m JOIN cortext.sessions s ON s.session_id = m.session_id AND s.life = m.life
        WHERE m.words @@ {tsquery} AND s.space = %s AND s.deleted_at IS NULL LIMIT {_RANKED}
    ) AS matched
    ORDER BY score DESC, last_active DESC, seq LIMIT %s
    """

    def query_server(connection: Connection) -> Rows:
        try:
            return connection.execute(query.encode(), (words, words, space, limit)).fetchall()
        except psycopg.errors.FeatureNotSupported:
            return []  # an engine whose index does not support an OR of words

    return connections.run(query_server, breaks=2)


def _scaled(rows: Rows, least: float, most: float) -> Rows:
    """Return the rows with scores scaled to [least, most]; the server's own scores depend on lengths."""
    best = max((row[-1] for row in rows), default=0.0) or 1.0
    return [(*row[:-1], least + (most - least) * row[-1] / best) for row in rows]


def readable(rows: Rows) -> Iterator[tuple[tuple[Any, ...], Any, float]]:
    """Yield the rows of `find` as session columns, message and score."""
    for row in rows:
        try:
            yield row[:8], from_row(row[8:15]), float(row[15])
        except BadLine:
            continue  # reported by a full read of that session


def state(connections: Connections, space: str) -> ServerState:
    """Return the current state of the server."""

    def query_server(connection: Connection) -> ServerState:
        def scalar(query: str, *values: object) -> Any:
            row = connection.execute(query.encode(), values).fetchone()
            return row[0] if row else None

        scalar("SELECT 1")
        begin = time.time()
        now = float(scalar("SELECT extract(epoch FROM clock_timestamp())"))
        end = time.time()
        counted = connection.execute(
            b"SELECT count(*), coalesce(sum(message_count), 0) FROM cortext.sessions "
            b"WHERE space = %s AND deleted_at IS NULL",
            (space,),
        ).fetchone() or (0, 0)
        return ServerState(
            address=connections.name,
            version=str(scalar("SHOW server_version")),
            schema=postgres_schema.version(connection),
            vectors=postgres_schema.enable_vectors(connection),
            round_trip_ms=round((end - begin) * 1000, 3),
            clock_ahead_s=round(now - (begin + end) / 2, 3),
            sessions=counted[0],
            messages=int(counted[1]),
            bytes=int(scalar("SELECT pg_database_size(current_database())") or 0),
            encrypted=connection.pgconn.ssl_in_use,
            pooled=connections.pooled,
        )

    return connections.run(query_server)


def miscounted(connections: Connections, space: str) -> Iterator[str]:
    """Yield the ids of sessions whose counts differ from their rows."""
    query = """
    SELECT s.session_id FROM cortext.sessions s
    LEFT JOIN cortext.messages m ON m.session_id = s.session_id AND m.life = s.life
    WHERE s.space = %s AND s.deleted_at IS NULL
    GROUP BY s.session_id, s.life, s.message_count, s.token_count, s.next_seq
    HAVING count(m.seq) <> s.message_count OR coalesce(sum(m.tokens), 0) <> s.token_count
        OR coalesce(max(m.seq), -1) >= s.next_seq
    """
    return (row[0] for row in connections.query(query, space))
