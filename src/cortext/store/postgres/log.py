"""Appending to a log on the server, and reading it.

An append is one statement: it moves the end of the log on, where the session is ours to write, and puts the message
there. If the answer is lost, it is asked again; the id of the message tells whether it had been done.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from cortext.model.message import Message
from cortext.store.base import UNREADABLE, Damage
from cortext.store.claims import Claim
from cortext.store.files.lines import BadLine
from cortext.store.files.log import complete, is_repeat
from cortext.store.postgres.claims import still_ours
from cortext.store.postgres.connection import Connections
from cortext.store.postgres.driver import Connection, psycopg
from cortext.store.postgres.lease import ENDED, FREE, LIVE, Lease
from cortext.store.postgres.rows import MESSAGE, MessageRow, from_row, hour_of, key_of, to_row

PAGE = 200

_END = """
UPDATE cortext.sessions
SET next_seq = next_seq + {0}, message_count = message_count + {0}, token_count = token_count + %s,
    last_active = greatest(last_active, %s), last_hour = greatest(last_hour, %s), straight = straight AND %s,
    due_embed = true, due_summarise = true, """
_MINE = """held_until = now() + %s * interval '1 second'
WHERE session_id = %s AND life = %s AND fence = %s AND deleted_at IS NULL"""
_ANYBODYS = f"{ENDED} WHERE {LIVE} AND {FREE}"
_WAYS = ((True, _MINE), (False, _ANYBODYS))
_RETURNING = " RETURNING session_id, life, next_seq"
_INSERT = "INSERT INTO cortext.messages (session_id, life, seq, id, role, said_at, tokens, content, more) "
_VALUES = _INSERT + "VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)"
_FROM_END = _INSERT + "SELECT session_id, life, next_seq - 1, %s, %s, %s, %s, %s, %s FROM log RETURNING seq"
_ONE = {held: f"WITH log AS ({_END.format(1)}{way}{_RETURNING}) {_FROM_END}".encode() for held, way in _WAYS}
_MANY = {held: f"{_END.format('%s')}{way}{_RETURNING}".encode() for held, way in _WAYS}
_THERE = f"SELECT {MESSAGE} FROM cortext.messages WHERE session_id = %s AND life = %s AND id = ANY(%s)"
_LIFE = f"SELECT life FROM cortext.sessions WHERE {LIVE}"
_PAGE = f"""
SELECT {MESSAGE} FROM cortext.messages WHERE session_id = %s AND life = %s AND seq >= %s ORDER BY seq LIMIT {PAGE}
"""
_TAIL = f"SELECT {MESSAGE} FROM cortext.messages WHERE session_id = %s AND life = ({_LIFE}) ORDER BY seq DESC LIMIT %s"


class Appending:
    """A batch on its way into the log. It can be tried any number of times, and is stored once."""

    def __init__(
        self, connections: Connections, space: str, session_id: str, messages: Sequence[Message], lease: Lease | None,
        seconds: float, claim: Claim | None = None,
    ) -> None:  # fmt: skip
        self._connections, self._space, self._session_id = connections, space, session_id
        self._lease, self._seconds, self._claim = lease, seconds, claim
        self._messages = _distinct([complete(message, 0) for message in messages])
        self._rows = [to_row(message) for message in self._messages]
        self._straight = not any(message.parent or message.partial or message.aside for message in self._messages)

    def run(self) -> list[Message] | None:
        """The messages as they are stored; None where the session is not ours to write (or not there)."""
        return self._connections.run(self._attempt)

    def _attempt(self, connection: Connection) -> list[Message] | None:
        wanted, rows = self._messages, self._rows
        there: dict[str, Message] = {}
        while True:
            try:
                first = self._write(connection, rows)
            except psycopg.errors.UniqueViolation:
                # Some of it is there: an answer that was lost, or a caller that tries once more.
                found = self._there(connection)
                if len(found) <= len(there):
                    raise
                there = found
                wanted = [message for message in self._messages if message.id not in there]
                rows = [to_row(message) for message in wanted]
                if wanted:
                    continue
                first = 0
            if first is None:
                there = self._there(connection)
                # Written while it was ours; only the answer was lost.
                return [there[message.id] for message in self._messages] if len(there) == len(self._messages) else None
            for place, message in enumerate(wanted):
                message.seq = first + place  # our own: see log.complete
            there |= {message.id: message for message in wanted}
            return [there[message.id] for message in self._messages]

    def _write(self, connection: Connection, rows: list[MessageRow]) -> int | None:
        """Store these; the number of the first, or None. Under a claim, only while that is ours."""
        if self._claim is None:
            return self._put(connection, rows)
        with connection.transaction():
            still_ours(connection, self._claim)
            return self._put(connection, rows)

    def _put(self, connection: Connection, rows: list[MessageRow]) -> int | None:
        count = len(rows)
        lease = self._lease
        held = lease is not None
        mine = (self._seconds, *lease) if lease else (self._session_id, self._space)
        if count == 1 and self._connections.whole and self._claim is None:
            row = rows[0]
            try:
                values = (row[3], row[2], hour_of(row[2]), self._straight, *mine, *row)
                got = connection.execute(_ONE[held], values, prepare=True).fetchone()
                return None if got is None else int(got[0])
            except psycopg.errors.FeatureNotSupported:
                self._connections.whole = False  # an engine that spreads its rows: two statements, one transaction
        tokens, last = sum(row[3] for row in rows), max(row[2] for row in rows)
        with connection.transaction():
            values = (count, count, tokens, last, hour_of(last), self._straight, *mine)
            got = connection.execute(_MANY[held], values).fetchone()
            if got is None:
                return None
            life, first = got[1], got[2] - count
            numbered = [(self._session_id, life, first + place, *row) for place, row in enumerate(rows)]
            with connection.cursor() as cursor:
                cursor.executemany(_VALUES.encode(), numbered)
        return int(first)

    def _there(self, connection: Connection) -> dict[str, Message]:
        life = self._lease.life if self._lease else None
        if life is None:
            row = connection.execute(_LIFE.encode(), (self._session_id, self._space)).fetchone()
            if row is None:
                return {}
            life = row[0]
        keys = [key_of(message.id) for message in self._messages]
        found = map(from_row, connection.execute(_THERE.encode(), (self._session_id, life, keys)))
        there = {message.id: message for message in found}
        for message in self._messages:
            if message.id in there:
                is_repeat(message, there[message.id])  # or InvalidMessage: the id is another's
        return there


def _distinct(messages: list[Message]) -> list[Message]:
    """Without what is given twice in a row: see log.OpenLog.append."""
    if len(messages) == 1:
        return messages
    kept: dict[str, Message] = {}
    for message in messages:
        if message.id in kept:
            is_repeat(message, kept[message.id])
        kept.setdefault(message.id, message)
    return list(kept.values())


class ServerReading:
    """The messages of one life of a session from a number on, a page at a time (see base.Reading)."""

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
    """A row that is no message: its place is its number."""
    return Damage("messages", row[0], len(row[6]), UNREADABLE, f"message {row[0]}: {reason}")


def life_of(connections: Connections, session_id: str, space: str) -> int | None:
    """Which life of this id is the living one; None where there is none."""
    rows = connections.query(_LIFE, session_id, space)
    return int(rows[0][0]) if rows else None


def tail(connections: Connections, session_id: str, space: str, count: int) -> list[Message]:
    """The last messages, in order."""
    messages = []
    rows = connections.query(_TAIL, session_id, session_id, space, count)
    for row in reversed(rows):
        try:
            messages.append(from_row(row))
        except BadLine:
            continue  # told by every whole reading
    return messages
