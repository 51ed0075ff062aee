"""Checking, repairing and rewriting one session on the server.

The server protects its own pages. Damage comes from rows that somebody deleted or changed by hand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from cortext.errors import SessionBusy
from cortext.model.message import Message
from cortext.model.session import Origin, Session
from cortext.model.wording import amount
from cortext.server.connection import Connections
from cortext.server.driver import Connection
from cortext.server.lease import Lease
from cortext.server.log import ServerReading, damaged_row
from cortext.server.rows import MESSAGE, from_row, record_error, record_of, to_row
from cortext.store.base import METADATA, Damage, RepairReport
from cortext.store.files.lines import BadLine, coerce, encode

_RECORDED = (
    "SELECT message_count, token_count, next_seq, record FROM cortext.sessions WHERE session_id = %s AND life = %s"
)
_ACTUAL = """
SELECT count(*), coalesce(sum(tokens), 0), coalesce(max(seq) + 1, 0)
FROM cortext.messages WHERE session_id = %s AND life = %s
"""
_WITH_MORE = (
    f"SELECT {MESSAGE} FROM cortext.messages WHERE session_id = %s AND life = %s AND more IS NOT NULL ORDER BY seq"
)
_RECOUNT = """
UPDATE cortext.sessions SET message_count = %s, token_count = %s, next_seq = greatest(next_seq, %s),
    due_embed = true, due_summarise = true
WHERE session_id = %s AND life = %s
"""


def check(connections: Connections, session_id: str, life: int) -> list[Damage]:
    """Return all damage of one session."""
    return connections.run(lambda connection: _check(connection, session_id, life)[0])


def _check(connection: Connection, session_id: str, life: int) -> tuple[list[Damage], list[tuple[Any, ...]]]:
    """Return the damage and the rows that are not valid messages, each with the reason as its last column."""
    key = (session_id, life)
    damage: list[Damage] = []
    invalid = []
    with connection.transaction():
        # One snapshot for all queries: a concurrent append must not look like damage.
        connection.execute(b"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        recorded = connection.execute(_RECORDED.encode(), key).fetchone()
        actual = connection.execute(_ACTUAL.encode(), key).fetchone()
        for row in connection.execute(_WITH_MORE.encode(), key):
            try:
                from_row(row)
            except BadLine as error:
                invalid.append((*row, str(error)))
                damage.append(damaged_row(row, str(error)))
    if recorded is None or actual is None:
        return damage, invalid
    problem = record_error(recorded[3])
    if problem:
        damage.append(Damage("sessions", 0, len(recorded[3]), METADATA, f"the metadata: {problem}"))
    if (recorded[0], recorded[1]) != (actual[0], int(actual[1])) or recorded[2] < actual[2]:
        reason = f"the session's row counts {amount(recorded[0], 'message')}, the log has {actual[0]}"
        damage.append(Damage("sessions", 0, 0, METADATA, reason))
    return damage, invalid


def repair(connections: Connections, session_id: str, life: int, *, dry_run: bool) -> RepairReport:
    """Move rows that are not valid messages into quarantine, restore the metadata, and recount."""

    def attempt(connection: Connection) -> tuple[list[Damage], list[tuple[Any, ...]], int]:
        damage, invalid = _check(connection, session_id, life)
        if damage and not dry_run:
            with connection.transaction():
                for row in invalid:
                    _quarantine_row(connection, session_id, life, row)
                _rebuild_record(connection, session_id, life)
                actual = connection.execute(_ACTUAL.encode(), (session_id, life)).fetchone() or (0, 0, 0)
                connection.execute(_RECOUNT.encode(), (*actual, session_id, life))
        count = connection.execute(_ACTUAL.encode(), (session_id, life)).fetchone() or (0,)
        return damage, invalid, int(count[0]) - (len(invalid) if dry_run else 0)

    damage, invalid, kept = connections.run(attempt)
    return RepairReport(
        session=session_id,
        damage=damage,
        kept_messages=kept,
        quarantined_bytes=sum(item.length for item in damage),
        quarantine="cortext.quarantine" if invalid or any(item.length for item in damage) else "",
        changed=bool(damage) and not dry_run,
        dry_run=dry_run,
    )


def _quarantine_row(connection: Connection, session_id: str, life: int, row: tuple[Any, ...]) -> None:
    seq, reason = row[0], row[7]
    record = encode({"columns": [str(value) for value in row[:7]]}).decode("utf-8")
    insert = "INSERT INTO cortext.quarantine VALUES (%s, %s, %s, %s, %s) ON CONFLICT DO NOTHING"
    connection.execute(insert.encode(), (session_id, life, seq, reason, record))
    delete = "DELETE FROM cortext.messages WHERE session_id = %s AND life = %s AND seq = %s"
    connection.execute(delete.encode(), (session_id, life, seq))


def _rebuild_record(connection: Connection, session_id: str, life: int) -> None:
    """Move metadata that cannot be decoded into quarantine and rebuild it from the columns that repeat it."""
    key = (session_id, life)
    query = "SELECT record, type, title, status, agent, tool, summary, created_at FROM cortext.sessions"
    row = connection.execute(f"{query} WHERE session_id = %s AND life = %s".encode(), key).fetchone()
    if row is None or not (problem := record_error(row[0])):
        return
    insert = "INSERT INTO cortext.quarantine VALUES (%s, %s, -1, %s, %s) ON CONFLICT DO NOTHING"
    connection.execute(insert.encode(), (*key, problem, row[0]))
    kind, title, status, agent, tool, summary, created = row[1:]
    session = Session(id=session_id, type=kind, title=title, status=status, agent=agent, summary=summary)
    session.origin, session.created_at = Origin(tool=tool), created
    save = "UPDATE cortext.sessions SET record = %s WHERE session_id = %s AND life = %s"
    connection.execute(save.encode(), (record_of(session), *key))


def rewrite(connections: Connections, lease: Lease, transform: Callable[[dict[str, Any]], dict[str, Any]]) -> int:
    """Apply `transform` to every message and every record about one, all or none; return how many changed."""
    session_id, life, _ = lease
    changed: list[Message] = []
    for message in ServerReading(connections, session_id, life):
        record = msgspec.to_builtins(message)
        rewritten = transform(record)
        if rewritten != record:
            kept = msgspec.convert(coerce(rewritten), Message, from_attributes=True)
            changed.append(msgspec.structs.replace(kept, id=message.id, seq=message.seq))
    notes = []
    for number, text in connections.query(
        "SELECT number, record FROM cortext.notes WHERE session_id = %s AND life = %s", session_id, life
    ):
        record = msgspec.json.decode(text)
        rewritten = transform(record)
        if rewritten != record:
            notes.append((encode(rewritten).decode("utf-8"), session_id, life, number))
    if changed or notes:
        connections.run(lambda connection: _replace(connection, lease, changed, notes))
    return len(changed) + len(notes)


def _replace(connection: Connection, lease: Lease, messages: list[Message], notes: list[tuple[Any, ...]]) -> None:
    rows = [(row[1:], (lease.session_id, lease.life, message.seq)) for message in messages for row in [to_row(message)]]
    with connection.transaction():
        lock = "SELECT 1 FROM cortext.sessions WHERE session_id = %s AND life = %s AND fence = %s FOR UPDATE"
        if connection.execute(lock.encode(), lease).fetchone() is None:
            raise SessionBusy(f"session {lease.session_id} was taken over", kept="nothing was changed")
        with connection.cursor() as cursor:
            cursor.executemany(
                b"UPDATE cortext.messages SET role = %s, said_at = %s, tokens = %s, content = %s, more = %s "
                b"WHERE session_id = %s AND life = %s AND seq = %s",
                [(*values, *key) for values, key in rows],
            )
            cursor.executemany(
                b"UPDATE cortext.notes SET record = %s WHERE session_id = %s AND life = %s AND number = %s", notes
            )
        actual = connection.execute(_ACTUAL.encode(), (lease.session_id, lease.life)).fetchone() or (0, 0, 0)
        connection.execute(_RECOUNT.encode(), (*actual, lease.session_id, lease.life))
