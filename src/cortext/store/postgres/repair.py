"""Looking after one session on the server: what its rows say against what is said of them, mending, masking.

The server keeps its own pages whole. What can be wrong is what somebody did by hand: rows taken out or changed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from cortext.errors import SessionBusy
from cortext.model.message import Message
from cortext.model.session import Origin, Session
from cortext.store.base import METADATA, Damage, RepairReport
from cortext.store.files.lines import BadLine, coerce, encode
from cortext.store.postgres.connection import Connections
from cortext.store.postgres.driver import Connection
from cortext.store.postgres.lease import Lease
from cortext.store.postgres.log import ServerReading, damaged_row
from cortext.store.postgres.rows import MESSAGE, from_row, record_of, to_row, what_is_wrong

_SAID = "SELECT message_count, token_count, next_seq, record FROM cortext.sessions WHERE session_id = %s AND life = %s"
_TRUE = """
SELECT count(*), coalesce(sum(tokens), 0), coalesce(max(seq) + 1, 0)
FROM cortext.messages WHERE session_id = %s AND life = %s
"""
_ODD = f"SELECT {MESSAGE} FROM cortext.messages WHERE session_id = %s AND life = %s AND more IS NOT NULL ORDER BY seq"
_RECOUNT = """
UPDATE cortext.sessions SET message_count = %s, token_count = %s, next_seq = greatest(next_seq, %s),
    due_embed = true, due_summarise = true
WHERE session_id = %s AND life = %s
"""


def check(connections: Connections, session_id: str, life: int) -> list[Damage]:
    """Everything that is wrong with one session."""
    return connections.run(lambda connection: _check(connection, session_id, life)[0])


def _check(connection: Connection, session_id: str, life: int) -> tuple[list[Damage], list[tuple[Any, ...]]]:
    """What is wrong, and the rows that are no messages."""
    key = (session_id, life)
    damage: list[Damage] = []
    bad = []
    with connection.transaction():
        # One look at all of it: an append in between must not seem to be damage.
        connection.execute(b"SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        said = connection.execute(_SAID.encode(), key).fetchone()
        true = connection.execute(_TRUE.encode(), key).fetchone()
        for row in connection.execute(_ODD.encode(), key):
            try:
                from_row(row)
            except BadLine as error:
                bad.append((*row, str(error)))
                damage.append(damaged_row(row, str(error)))
    if said is None or true is None:
        return damage, bad
    wrong = what_is_wrong(said[3])
    if wrong:
        damage.append(Damage("sessions", 0, len(said[3]), METADATA, f"the metadata: {wrong}"))
    if (said[0], said[1]) != (true[0], int(true[1])) or said[2] < true[2]:
        reason = f"the session says {said[0]} messages, the log has {true[0]}"
        damage.append(Damage("sessions", 0, 0, METADATA, reason))
    return damage, bad


def repair(connections: Connections, session_id: str, life: int, *, dry_run: bool) -> RepairReport:
    """Put rows that are no messages into quarantine, and count again."""

    def mend(connection: Connection) -> tuple[list[Damage], list[tuple[Any, ...]], int]:
        damage, bad = _check(connection, session_id, life)
        if damage and not dry_run:
            with connection.transaction():
                for row in bad:
                    _set_aside(connection, session_id, life, row)
                _mend_record(connection, session_id, life)
                true = connection.execute(_TRUE.encode(), (session_id, life)).fetchone() or (0, 0, 0)
                connection.execute(_RECOUNT.encode(), (*true, session_id, life))
        count = connection.execute(_TRUE.encode(), (session_id, life)).fetchone() or (0,)
        return damage, bad, int(count[0]) - (len(bad) if dry_run else 0)

    damage, bad, kept = connections.run(mend)
    return RepairReport(
        session=session_id,
        damage=damage,
        kept_messages=kept,
        quarantined_bytes=sum(item.length for item in damage),
        quarantine="cortext.quarantine" if bad or any(item.length for item in damage) else "",
        changed=bool(damage) and not dry_run,
        dry_run=dry_run,
    )


def _set_aside(connection: Connection, session_id: str, life: int, row: tuple[Any, ...]) -> None:
    seq, reason = row[0], row[7]
    record = encode({"columns": [str(value) for value in row[:7]]}).decode("utf-8")
    keep = "INSERT INTO cortext.quarantine VALUES (%s, %s, %s, %s, %s) ON CONFLICT DO NOTHING"
    connection.execute(keep.encode(), (session_id, life, seq, reason, record))
    take = "DELETE FROM cortext.messages WHERE session_id = %s AND life = %s AND seq = %s"
    connection.execute(take.encode(), (session_id, life, seq))


def _mend_record(connection: Connection, session_id: str, life: int) -> None:
    """Metadata that cannot be read is kept in quarantine, and made anew from the columns that repeat it."""
    key = (session_id, life)
    query = "SELECT record, type, title, status, agent, tool, summary, created_at FROM cortext.sessions"
    row = connection.execute(f"{query} WHERE session_id = %s AND life = %s".encode(), key).fetchone()
    if row is None or not (wrong := what_is_wrong(row[0])):
        return
    keep = "INSERT INTO cortext.quarantine VALUES (%s, %s, -1, %s, %s) ON CONFLICT DO NOTHING"
    connection.execute(keep.encode(), (*key, wrong, row[0]))
    kind, title, status, agent, tool, summary, created = row[1:]
    session = Session(id=session_id, type=kind, title=title, status=status, agent=agent, summary=summary)
    session.origin, session.created_at = Origin(tool=tool), created
    save = "UPDATE cortext.sessions SET record = %s WHERE session_id = %s AND life = %s"
    connection.execute(save.encode(), (record_of(session), *key))


def rewrite(connections: Connections, lease: Lease, transform: Callable[[dict[str, Any]], dict[str, Any]]) -> int:
    """Put every message and every record about one through `transform`, all or none; how many changed."""
    session_id, life, _ = lease
    changed: list[Message] = []
    for message in ServerReading(connections, session_id, life):
        record = msgspec.to_builtins(message)
        now = transform(record)
        if now != record:
            kept = msgspec.convert(coerce(now), Message, from_attributes=True)
            changed.append(msgspec.structs.replace(kept, id=message.id, seq=message.seq))
    notes = []
    for number, text in connections.query(
        "SELECT number, record FROM cortext.notes WHERE session_id = %s AND life = %s", session_id, life
    ):
        record = msgspec.json.decode(text)
        now = transform(record)
        if now != record:
            notes.append((encode(now).decode("utf-8"), session_id, life, number))
    if changed or notes:
        connections.run(lambda connection: _replace(connection, lease, changed, notes))
    return len(changed) + len(notes)


def _replace(connection: Connection, lease: Lease, messages: list[Message], notes: list[tuple[Any, ...]]) -> None:
    rows = [(row[1:], (lease.session_id, lease.life, message.seq)) for message in messages for row in [to_row(message)]]
    with connection.transaction():
        hold = "SELECT 1 FROM cortext.sessions WHERE session_id = %s AND life = %s AND fence = %s FOR UPDATE"
        if connection.execute(hold.encode(), lease).fetchone() is None:
            raise SessionBusy(f"session {lease.session_id} was taken over", kept="everything, unchanged")
        with connection.cursor() as cursor:
            cursor.executemany(
                b"UPDATE cortext.messages SET role = %s, said_at = %s, tokens = %s, content = %s, more = %s "
                b"WHERE session_id = %s AND life = %s AND seq = %s",
                [(*values, *key) for values, key in rows],
            )
            cursor.executemany(
                b"UPDATE cortext.notes SET record = %s WHERE session_id = %s AND life = %s AND number = %s", notes
            )
        true = connection.execute(_TRUE.encode(), (lease.session_id, lease.life)).fetchone() or (0, 0, 0)
        connection.execute(_RECOUNT.encode(), (*true, lease.session_id, lease.life))
