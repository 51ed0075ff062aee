"""Search by meaning on servers that have the extension pgvector; without it, nothing here is used.

Vectors arrive as records for `annotate` (type `embedding`) and are copied into a table that can be searched.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

from cortext.server.driver import Connection
from cortext.server.rows import MESSAGE_OF_M, SESSION_OF_S, key_of
from cortext.server.scope import LISTED, Own
from cortext.server.search import conditions


def keep(connection: Connection, owner: str, session_id: str, life: int, records: Sequence[dict[str, Any]]) -> None:
    """Copy the vectors among these records into the table, in the caller's transaction."""
    rows = []
    for record in records:
        found = vector_of(record)
        if found is not None:
            model = str(record.get("model", ""))
            rows.append((session_id, life, key_of(str(record["message_id"])), model, literal(found), owner))
    if rows:
        with connection.cursor() as cursor:
            cursor.executemany(
                b"INSERT INTO cortext.vectors (session_id, life, id, model, vector, owner) "
                b"VALUES (%s, %s, %s, %s, %s, %s) "
                b"ON CONFLICT (session_id, life, id, model) DO UPDATE SET vector = excluded.vector",
                rows,
            )


def vector_of(record: dict[str, Any]) -> list[float] | None:
    """Return the vector of a record, from either of its two encodings; None if it has none."""
    if record.get("type") != "embedding":
        return None
    vector = record.get("vector")
    if isinstance(vector, list) and all(isinstance(value, int | float) for value in vector):
        return vector or None
    packed, scale = record.get("int8"), record.get("scale")
    if not isinstance(packed, str) or not isinstance(scale, int | float):
        return None
    try:
        raw = base64.b64decode(packed, validate=True)
    except ValueError:
        return None
    return [(byte - 256 if byte > 127 else byte) * scale for byte in raw] if raw and scale else None


def literal(vector: Sequence[float]) -> str:
    """Return a vector in the text form of pgvector."""
    return "[" + ",".join(f"{float(value):.6g}" for value in vector) + "]"


def find(
    scope: Own, vector: Sequence[float], model: str, limit: int, where: Sequence[tuple[str, str]] = ()
) -> list[Any]:
    """Return the columns SESSION, the columns MESSAGE and a score of the messages with the nearest vectors.

    Owner, space, trash and filters are applied before the nearest are chosen. So no index of neighbours can be used:
    the vectors of these sessions are compared one by one, and the answer is exact.
    """
    dimensions = len(vector)
    given = conditions(where)
    messages = "JOIN cortext.messages m ON m.session_id = v.session_id AND m.life = v.life AND m.id = v.id"
    query = f"""
    WITH near AS MATERIALIZED (
        SELECT v.session_id, v.life, v.id, 1 - (v.vector <=> %s::vector({dimensions})) AS score
        FROM cortext.vectors v
        JOIN (SELECT session_id, life FROM cortext.sessions WHERE {LISTED}{given.sessions}) AS s
            ON s.session_id = v.session_id AND s.life = v.life
        {messages if given.messages else ""}
        WHERE v.model = %s AND vector_dims(v.vector) = {dimensions}{given.messages}
        ORDER BY v.vector <=> %s::vector({dimensions}) LIMIT %s
    )
    SELECT {SESSION_OF_S}, {MESSAGE_OF_M}, near.score FROM near
    JOIN cortext.sessions s ON s.session_id = near.session_id AND s.life = near.life
    JOIN cortext.messages m ON m.session_id = near.session_id AND m.life = near.life AND m.id = near.id
    ORDER BY near.score DESC, m.seq
    """
    text = literal(vector)
    values = (text, *scope.all(), *given.of_sessions, model, *given.of_messages, text, limit)
    return scope.connections.query(scope.sql(query), *values, breaks=2)
