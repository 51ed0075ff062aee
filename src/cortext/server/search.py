"""Listing and search by the server, with its own indexes and ranking, and by meaning if it has the extension pgvector.

Vectors arrive as records for `annotate` (type `embedding`) and are copied into a table that can be searched.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from cortext.errors import UsageError
from cortext.model.query import FILTERS
from cortext.safety.languages import sql_like
from cortext.server import schema
from cortext.server.driver import Connection, psycopg
from cortext.server.rows import MESSAGE_OF_M, SESSION, SESSION_OF_S, from_row, hour_of, key_of, storable
from cortext.server.scope import LISTED, Own
from cortext.store.files.lines import BadLine
from cortext.store.server_capabilities import COMPARED, COMPARED_IN_MESSAGES, ServerState

_FILTERS = {name: f"{FILTERS[name].column} {FILTERS[name].compare} %s" for name in COMPARED} | {
    # A piece of a name, in which - and _ are the same: see `_name_pattern`.
    "named": "translate(lower(session_id || ' ' || title || ' ' || type || ' ' || summary), '_', '-') LIKE %s",
    "other_tool": "tool <> %s",
}
# The same for messages that are searched, where the times are those of the message.
_MESSAGE_FILTERS = {
    name: f"left(m.said_at, 19) {FILTERS[name].compare} left(%s, 19)" if FILTERS[name].is_time else f"m.{name} = %s"
    for name in COMPARED_IN_MESSAGES
}
_SESSION_FILTERS = [name for name in COMPARED if name not in _MESSAGE_FILTERS]
_ORDERS = {
    # The index contains the hour; within an hour the server sorts.
    "last_active": "last_hour DESC, last_active DESC, session_id DESC",
    "created_at": "created_at DESC, session_id DESC",
    "message_count": "message_count DESC, session_id DESC",
    # From A to Z by what a list shows: the title, or the id.
    "title": "lower(CASE title WHEN '' THEN session_id ELSE title END) COLLATE \"C\", session_id",
}
_LONGEST = 2000  # characters of a query
_PAGE = 500  # sessions that are read or counted in one statement
ALL_WORDS = "plainto_tsquery('simple', %s)"
# NULL, which matches nothing, if there is only one word.
ANY_WORD = f"nullif(replace({ALL_WORDS}::text, ' & ', ' | '), {ALL_WORDS}::text)::tsquery"

_COUNT = f"SELECT count(*), coalesce(sum(message_count), 0) FROM cortext.sessions WHERE {LISTED}"

_SECURITY = b"""
SELECT relname::text, relrowsecurity FROM pg_class
WHERE relnamespace = to_regnamespace('cortext') AND relkind IN ('r', 'p')
"""
_SIZE = "SELECT pg_database_size(current_database())"
_SIZE_ON_NODES = """
SELECT sum(citus_total_relation_size(logicalrelid)) FROM pg_dist_partition JOIN pg_class ON oid = logicalrelid
WHERE relnamespace = to_regnamespace('cortext')
"""
# Two ranges of an index, because `<>` would read every session; and a limit, because Citus runs each part by itself.
_OTHERS = """
SELECT EXISTS (SELECT 1 FROM cortext.sessions WHERE owner < %s AND deleted_at IS NULL LIMIT 1)
    OR EXISTS (SELECT 1 FROM cortext.sessions WHERE owner > %s AND deleted_at IS NULL LIMIT 1)
"""

Rows = list[tuple[Any, ...]]
Where = Sequence[tuple[str, str]]


def _name_pattern(piece: str) -> str:
    return sql_like(piece.lower().replace("_", "-"))


class Conditions(NamedTuple):
    """The filters of a search as conditions on sessions and on messages (`m`), each with its values."""

    sessions: str
    of_sessions: tuple[object, ...]
    messages: str
    of_messages: tuple[object, ...]


def conditions(where: Where) -> Conditions:
    """Return the conditions of these (name, value) filters: COMPARED and COMPARED_IN_MESSAGES."""
    if unknown := [name for name, _ in where if name not in (*_SESSION_FILTERS, *_MESSAGE_FILTERS)]:
        raise UsageError(f"a server cannot search by {', '.join(unknown)}")
    sessions = [(name, storable(value)) for name, value in where if name in _SESSION_FILTERS]
    messages = [(name, storable(value)) for name, value in where if name in _MESSAGE_FILTERS]
    return Conditions(
        "".join(f" AND {_FILTERS[name]}" for name, _ in sessions),
        tuple(value for _, value in sessions),
        "".join(f" AND {_MESSAGE_FILTERS[name]}" for name, _ in messages),
        tuple(value for _, value in messages),
    )


def listed(scope: Own, where: Where, *, limit: int, order: str) -> Rows:
    """Return the columns SESSION of the sessions that match all filters; without a limit all of them, unordered."""
    if order not in _ORDERS or any(name not in _FILTERS for name, _ in where):
        raise UsageError(f"a server cannot list by {', '.join([order, *(name for name, _ in where)])}")
    conditions = "".join(f" AND {_FILTERS[name]}" for name, _ in where)
    given = [_name_pattern(value) if name == "named" else value for name, value in where]
    values = (*scope.all(), *map(storable, given))
    if limit <= 0:
        return _in_pages(scope, conditions, values)
    query = f"SELECT {SESSION} FROM cortext.sessions WHERE {LISTED}{conditions} ORDER BY {_ORDERS[order]} LIMIT %s"
    return scope.connections.query(scope.sql(query), *values, limit)


def _in_pages(scope: Own, conditions: str, values: tuple[object, ...]) -> Rows:
    """Return the same for all sessions, in statements of a bounded size.

    The oldest come first: a session that becomes active meanwhile comes again in a later page, and none is missed.
    """
    query = f"""
    SELECT {SESSION}, last_hour FROM cortext.sessions
    WHERE {LISTED}{conditions} AND (last_hour, session_id) > (%s, %s) ORDER BY last_hour, session_id LIMIT {_PAGE}
    """
    found: dict[str, tuple[Any, ...]] = {}
    last = ("", "")
    while rows := scope.connections.query(scope.sql(query), *values, *last):
        found |= {row[0]: row[:-1] for row in rows}
        if len(rows) < _PAGE:
            break
        last = rows[-1][-1], rows[-1][0]
    return list(found.values())


def find(scope: Own, text: str, limit: int, where: Where = ()) -> Rows:
    """Return the columns SESSION, the columns MESSAGE and a score for each match, best first."""
    words = storable(text)[:_LONGEST]
    rows = _scaled(_matches(scope, ALL_WORDS, words, limit, where), 0.5, 1.0)
    if len(rows) >= limit:
        return rows
    # Matches of all words rank above matches of any word.
    seen = {(row[0], row[8]) for row in rows}
    others = _scaled(_matches(scope, ANY_WORD, words, limit, where), 0.0, 0.5)
    return rows + [row for row in others if (row[0], row[8]) not in seen][: limit - len(rows)]


def _matches(scope: Own, tsquery: str, words: str, limit: int, where: Where) -> Rows:
    """Return the best matches."""
    query, values = statement(scope, tsquery, words, limit, where)

    def query_server(connection: Connection) -> Rows:
        try:
            # Not prepared: a plan for any words would be the same for a rare one and for one that every message has.
            return connection.execute(query.encode(), values, prepare=False).fetchall()
        except psycopg.errors.FeatureNotSupported:
            return []  # an engine whose index does not support an OR of words

    return scope.connections.run(query_server, breaks=2)


def statement(scope: Own, tsquery: str, words: str, limit: int, where: Where = ()) -> tuple[str, tuple[object, ...]]:
    """Return the statement of a search, with its values. Every match is ranked, by its key; only the best are read.

    How many messages a session has decides whether the index of words or the sessions are read first. The server takes
    the two columns of a session's key for independent, so for an equality of both it would expect one message in each.
    For the same reason a message is read by both of its keys: whichever index the server takes, it reads one row.
    """
    given = conditions(where)
    query = f"""
    WITH best AS MATERIALIZED (
        SELECT m.session_id, m.life, m.seq, m.id, s.last_active, ts_rank(m.words, {tsquery}, 33) AS score
        FROM cortext.messages m
        JOIN (SELECT session_id, life, last_active FROM cortext.sessions WHERE {LISTED}{given.sessions}) AS s
            ON s.session_id = m.session_id AND m.life BETWEEN s.life AND s.life
        WHERE m.words @@ {tsquery}{given.messages} ORDER BY score DESC, s.last_active DESC, m.seq LIMIT %s
    ), said AS MATERIALIZED (
        SELECT m.session_id, m.life, {MESSAGE_OF_M}, best.last_active, best.score FROM best
        JOIN cortext.messages m ON m.session_id = best.session_id AND m.life = best.life AND m.seq = best.seq
            AND m.id = best.id
    )
    SELECT {SESSION_OF_S}, {MESSAGE_OF_M}, m.score FROM said m
    JOIN cortext.sessions s ON s.session_id = m.session_id AND s.life = m.life
    ORDER BY m.score DESC, m.last_active DESC, m.seq
    """
    asked = (words,) * tsquery.count("%s")
    return scope.sql(query), (*asked, *scope.all(), *given.of_sessions, *asked, *given.of_messages, limit)


def around(scope: Own, places: Sequence[tuple[str, int]]) -> Rows:
    """Return the session's id and the columns MESSAGE of messages by their numbers, with their neighbours."""
    query = f"""
    SELECT m.session_id, {MESSAGE_OF_M} FROM unnest(%s::text[], %s::bigint[]) AS place (session_id, seq)
    JOIN (SELECT session_id, life FROM cortext.sessions WHERE {LISTED} AND session_id = ANY(%s)) AS s
        ON s.session_id = place.session_id
    JOIN cortext.messages m ON m.session_id = s.session_id AND m.life = s.life
        AND m.seq BETWEEN place.seq - 1 AND place.seq + 1
    """
    ids, numbers = [name for name, _ in places], [number for _, number in places]
    return scope.connections.query(scope.sql(query), ids, numbers, *scope.all(), list(dict.fromkeys(ids)))


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


def state(scope: Own) -> ServerState:
    """Return the current state of the server."""
    connections = scope.connections

    def query_server(connection: Connection) -> ServerState:
        def scalar(query: str, *values: object) -> Any:
            row = connection.execute(query.encode(), values).fetchone()
            return row[0] if row else None

        scalar("SELECT 1")
        begin = time.time()
        now = float(scalar("SELECT extract(epoch FROM clock_timestamp())"))
        end = time.time()
        counted = connection.execute(scope.sql(_COUNT).encode(), scope.all()).fetchone() or (0, 0)
        found = schema.versions(connection)
        tables = connection.execute(_SECURITY).fetchall()
        protected = {name for name, has in tables if has}
        bound = scalar("SELECT row_security_active('cortext.sessions')")
        distributed = schema.is_distributed(connection)
        return ServerState(
            address=connections.name,
            version=str(scalar("SHOW server_version")),
            schema=found.applied if found else 0,
            vectors=schema.has_vectors(connection),
            round_trip_ms=round((end - begin) * 1000, 3),
            clock_ahead_s=round(now - (begin + end) / 2, 3),
            sessions=counted[0],
            messages=int(counted[1]),
            bytes=int(scalar(_SIZE_ON_NODES if distributed else _SIZE)),
            encrypted=connection.pgconn.ssl_in_use,
            pooled=connections.pooled,
            distributed=distributed,
            owner=scope.owner,
            policies="off" if "sessions" not in protected else "on" if bound else "bypassed",
            unprotected=sorted(name for name, has in tables if protected and not has and name != "schema_version"),
            is_shared=bool(scalar(_OTHERS, scope.owner, scope.owner)),
        )

    return connections.run(query_server)


def miscounted(scope: Own, since: str = "") -> Iterator[str]:
    """Yield the ids of sessions whose counts differ from their rows: all, or those active since this time."""
    page = f"""
    SELECT session_id FROM cortext.sessions
    WHERE {LISTED} AND last_hour >= %s AND session_id > %s ORDER BY session_id LIMIT {_PAGE}
    """
    # With the ids as values: Citus would fetch every message from its nodes to join them with a page of rows.
    query = f"""
    SELECT s.session_id FROM (
        SELECT session_id, life, message_count, token_count, next_seq FROM cortext.sessions
        WHERE {LISTED} AND session_id = ANY(%s)
    ) AS s LEFT JOIN cortext.messages m ON m.session_id = s.session_id AND m.life = s.life
    GROUP BY s.session_id, s.life, s.message_count, s.token_count, s.next_seq
    HAVING count(m.seq) <> s.message_count OR coalesce(sum(m.tokens), 0) <> s.token_count
        OR coalesce(max(m.seq), -1) >= s.next_seq
    ORDER BY s.session_id
    """
    last = ""
    while rows := scope.connections.query(scope.sql(page), *scope.all(), hour_of(since), last):
        ids = [row[0] for row in rows]
        yield from (row[0] for row in scope.connections.query(scope.sql(query), *scope.all(), ids))
        last = ids[-1]


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


def find_similar(
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
