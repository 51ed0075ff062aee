"""Appending to a log on the server, and reading it.

An append is one statement: if this process may write the session, it advances the end of the log and inserts the
message. If the answer is lost, the statement is retried; the message's id shows whether it had succeeded.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from cortext.model.amounts import amount
from cortext.model.message import Message
from cortext.server.audit import note
from cortext.server.claims import lock_claim
from cortext.server.connection import Connections
from cortext.server.driver import Connection, psycopg
from cortext.server.lease import END_STALE_LEASE, FREE, Lease
from cortext.server.rows import MESSAGE, MessageRow, from_row, hour_of, key_of, to_row
from cortext.server.scope import HELD, LIVE, WRITABLE, Own
from cortext.store.base import UNREADABLE, Damage
from cortext.store.claims import Claim
from cortext.store.files.lines import BadLine
from cortext.store.files.log import complete, is_repeat

PAGE = 200

_ADVANCE = """
UPDATE cortext.sessions
SET next_seq = next_seq + {0}, message_count = message_count + {0}, token_count = token_count + %s,
    last_active = greatest(last_active, %s), last_hour = greatest(last_hour, %s), straight = straight AND %s,
    due_embed = true, due_summarise = true, """
_LEASED = f"held_until = now() + %s * interval '1 second' WHERE {HELD}"
_UNLEASED = f"{END_STALE_LEASE} WHERE {WRITABLE} AND {FREE}"
_CONDITIONS = ((True, _LEASED), (False, _UNLEASED))
_RETURNING = " RETURNING session_id, life, next_seq"
_INSERT = "INSERT INTO cortext.messages (session_id, life, seq, id, role, said_at, tokens, content, more) "
_VALUES = _INSERT + "VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)"
_FROM_END = _INSERT + "SELECT session_id, life, next_seq - 1, %s, %s, %s, %s, %s, %s FROM log RETURNING seq"
_APPEND_ONE = {
    leased: f"WITH log AS ({_ADVANCE.format(1)}{where}{_RETURNING}) {_FROM_END}" for leased, where in _CONDITIONS
}
_ADVANCE_BY_MANY = {leased: f"{_ADVANCE.format('%s')}{where}{_RETURNING}" for leased, where in _CONDITIONS}
_BY_IDS = f"SELECT {MESSAGE} FROM cortext.messages WHERE session_id = %s AND life = %s AND id = ANY(%s)"
_LIFE = f"SELECT life FROM cortext.sessions WHERE {LIVE}"
_PAGE = f"""
SELECT {MESSAGE} FROM cortext.messages WHERE session_id = %s AND life = %s AND seq >= %s ORDER BY seq LIMIT {PAGE}
"""
_TAIL = f"SELECT {MESSAGE} FROM cortext.messages WHERE session_id = %s AND life = ({_LIFE}) ORDER BY seq DESC LIMIT %s"


class AppendBatch:
    """A batch of messages to append. It may be attempted any number of times and is stored once."""

    def __init__(
        self, connections: Connections, scope: Own, session_id: str, messages: Sequence[Message], lease: Lease | None,
        seconds: float, claim: Claim | None = None,
    ) -> None:  # fmt: skip
        self._connections, self._scope, self._session_id = connections, scope, session_id
        self._lease, self._seconds, self._claim = lease, seconds, claim
        self._messages = _distinct([complete(message, 0) for message in messages])
        self._rows = [to_row(message) for message in self._messages]
        self._is_linear = not any(
            message.parent or message.partial or message.aside or message.replaces for message in self._messages
        )

    def run(self) -> list[Message] | None:
        """Append the messages and return them as stored; None if the session is held by another process or missing."""
        return self._connections.run(self._attempt)

    def _attempt(self, connection: Connection) -> list[Message] | None:
        wanted, rows = self._messages, self._rows
        stored: dict[str, Message] = {}
        while True:
            try:
                first = self._write(connection, rows)
            except psycopg.errors.UniqueViolation:
                # Some messages are stored already: an answer was lost, or the caller is retrying.
                found = self._find_stored(connection)
                if len(found) <= len(stored):
                    raise
                stored = found
                wanted = [message for message in self._messages if message.id not in stored]
                rows = [to_row(message) for message in wanted]
                if wanted:
                    continue
                first = 0
            if first is None:
                stored = self._find_stored(connection)
                # Written while we held the session; only the answer was lost.
                if len(stored) < len(self._messages):
                    return None
                return [stored[message.id] for message in self._messages]
            for index, message in enumerate(wanted):
                message.seq = first + index  # ours to change: `complete` returned copies
            stored |= {message.id: message for message in wanted}
            return [stored[message.id] for message in self._messages]

    def _write(self, connection: Connection, rows: list[MessageRow]) -> int | None:
        """Insert the rows and return the number of the first, or None. Under a claim, only while that is valid."""
        if self._claim is None and not self._scope.audited:
            return self._insert(connection, rows)
        with connection.transaction():
            if self._claim is not None:
                lock_claim(connection, self._connections.owner, self._claim)
            first = self._insert(connection, rows)
            if first is not None and self._scope.audited:
                note(connection, self._scope, self._session_id, "append", detail=amount(len(rows), "message"))
            return first

    def _insert(self, connection: Connection, rows: list[MessageRow]) -> int | None:
        count = len(rows)
        lease = self._lease
        leased = lease is not None
        scope = self._scope
        condition = (self._seconds, *scope.held(lease)) if lease else scope.writable(self._session_id)
        if count == 1 and self._connections.can_write_two_tables and self._claim is None:
            row = rows[0]
            try:
                values = (row[3], row[2], hour_of(row[2]), self._is_linear, *condition, *row)
                written = connection.execute(
                    self._scope.sql(_APPEND_ONE[leased]).encode(), values, prepare=True
                ).fetchone()
                return None if written is None else int(written[0])
            except psycopg.errors.FeatureNotSupported:
                # A distributed engine: use two statements in one transaction from now on.
                self._connections.cannot_write_two_tables()
        tokens, last = sum(row[3] for row in rows), max(row[2] for row in rows)
        with connection.transaction():
            values = (count, count, tokens, last, hour_of(last), self._is_linear, *condition)
            written = connection.execute(self._scope.sql(_ADVANCE_BY_MANY[leased]).encode(), values).fetchone()
            if written is None:
                return None
            life, first = written[1], written[2] - count
            numbered = [(self._session_id, life, first + index, *row) for index, row in enumerate(rows)]
            with connection.cursor() as cursor:
                cursor.executemany(_VALUES.encode(), numbered)
        return int(first)

    def _find_stored(self, connection: Connection) -> dict[str, Message]:
        life = self._lease.life if self._lease else None
        if life is None:
            row = connection.execute(self._scope.sql(_LIFE).encode(), self._scope.one(self._session_id)).fetchone()
            if row is None:
                return {}
            life = row[0]
        keys = [key_of(message.id) for message in self._messages]
        found = map(from_row, connection.execute(_BY_IDS.encode(), (self._session_id, life, keys)))
        stored = {message.id: message for message in found}
        for message in self._messages:
            if message.id in stored:
                is_repeat(message, stored[message.id])  # InvalidMessage if another message has this id
        return stored


def _distinct(messages: list[Message]) -> list[Message]:
    """Return the messages without repeated ones: see files.log.OpenLog.append."""
    if len(messages) == 1:
        return messages
    kept: dict[str, Message] = {}
    for message in messages:
        if message.id in kept:
            is_repeat(message, kept[message.id])
        kept.setdefault(message.id, message)
    return list(kept.values())


class ServerReading:
    """The messages of one life of a session from number `start` on, read in pages (see base.Reading)."""

    def __init__(self, connections: Connections, session_id: str, life: int, start: int = 0) -> None:
        self.damage: list[Damage] = []
        self._connections, self._session_id, self._life, self._start = connections, session_id, life, start

    def __iter__(self) -> Iterator[Message]:
        self.damage = []
        start = self._start
        while True:
            rows = self._connections.query(_PAGE, self._session_id, self._life, start)
            for row in rows:
                try:
                    yield from_row(row)
                except BadLine as error:
                    self.damage.append(damaged_row(row, str(error)))
            if len(rows) < PAGE:
                return
            start = rows[-1][0] + 1


def damaged_row(row: tuple[Any, ...], reason: str) -> Damage:
    """Return the damage for a row that is not a valid message; its offset is the message's number."""
    return Damage("messages", row[0], len(row[6]), UNREADABLE, f"message {row[0]}: {reason}")


def life_of(scope: Own, session_id: str) -> int | None:
    """Return the life of the session that is not in the trash; None if there is none."""
    rows = scope.connections.query(scope.sql(_LIFE), *scope.one(session_id))
    return int(rows[0][0]) if rows else None


def tail(scope: Own, session_id: str, count: int) -> list[Message]:
    """Return the last `count` messages, in order."""
    messages = []
    rows = scope.connections.query(scope.sql(_TAIL), session_id, *scope.one(session_id), count)
    for row in reversed(rows):
        try:
            messages.append(from_row(row))
        except BadLine:
            continue  # reported by a full read
    return messages
