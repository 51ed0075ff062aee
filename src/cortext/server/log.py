"""The log of a session on the server, appended to and read, and changes of the session's row.

An append is one statement: if this process may write the session, it advances the end of the log and inserts the
message. If the answer is lost, the statement is retried; the message's id shows whether it had succeeded. Each change
of metadata, archive or records about messages reads, decides and writes in one transaction, with the row locked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from cortext.model.message import Message
from cortext.model.session import Change, Session
from cortext.model.threads import is_branched
from cortext.model.wording import amount
from cortext.server import search
from cortext.server.connection import Connections
from cortext.server.driver import Connection, psycopg
from cortext.server.lease import END_STALE_LEASE, FREE, Lease, Leases, lock_claim
from cortext.server.rows import MESSAGE, SESSION, MessageRow, columns_of, from_row, hour_of, key_of, storable, to_row
from cortext.server.schema import has_vectors
from cortext.server.scope import HELD, LIVE, WRITABLE, Own, note
from cortext.store.base import UNREADABLE, Damage
from cortext.store.files.lines import BadLine, decode_value, encode, encode_annotation
from cortext.store.files.log import complete, is_repeat
from cortext.store.server_capabilities import Claim

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
        self._is_linear = not is_branched(self._messages) and not any(
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


NOTES_PAGE = 500
_SAVE = """
UPDATE cortext.sessions SET record = %s, type = %s, title = %s, status = %s, agent = %s, tool = %s, summary = %s,
    last_active = greatest(last_active, %s), last_hour = greatest(last_hour, %s),
    summary_vector = CASE WHEN summary = %s THEN summary_vector END, due_embed = due_embed OR summary <> %s
WHERE session_id = %s AND life = %s
"""
_NOTES = f"""
SELECT record FROM cortext.notes WHERE session_id = %s AND life = %s AND number >= %s ORDER BY number LIMIT {NOTES_PAGE}
"""
_LAST_NOTES = "SELECT record FROM cortext.notes WHERE session_id = %s AND life = %s AND number >= %s ORDER BY number"
_COUNT = "SELECT count(*) FROM cortext.messages WHERE session_id = %s AND life = %s AND seq >= %s AND seq < %s"

Target = Lease | None


class SessionChanges:
    """Changes to the sessions of one scope."""

    def __init__(
        self, connections: Connections, leases: Leases, scope: Own, session: Callable[[tuple[Any, ...]], Session]
    ) -> None:
        self.connections, self.leases, self.scope = connections, leases, scope
        self._session = session
        self._vectors = False

    def change(self, session_id: str, change: Change, lease: Target) -> Session:
        """Change the metadata and return the result; without a lease, wait until nobody holds the session."""

        def attempt() -> Session | None:
            return self.connections.run(lambda connection: self._change(connection, session_id, change, lease))

        if lease is None:
            return self.leases.wait_for(session_id, attempt)
        changed = attempt()
        if changed is None:
            raise self.leases.takeover_error(lease)
        return changed

    def _change(self, connection: Connection, session_id: str, change: Change, lease: Target) -> Session | None:
        with connection.transaction():
            row = self._locked(connection, session_id, lease, SESSION)
            if row is None:
                return None
            session = change.apply(self._session(row[1:]))
            columns = columns_of(session)
            active = (session.last_active, session.last_active[:13])
            connection.execute(_SAVE.encode(), (*columns, *active, columns[-1], columns[-1], session_id, row[0]))
            self._note(connection, session_id, "update")
        return session

    def compact(self, session_id: str, before: int) -> int:
        """Mark the messages below number `before` as archived; return how many were not archived before."""

        def attempt() -> int | None:
            return self.connections.run(lambda connection: self._compact(connection, session_id, before))

        return self.leases.wait_for(session_id, attempt)

    def annotate(self, session_id: str, records: Sequence[dict[str, object]]) -> None:
        """Store records about messages."""
        lines = [encode_annotation(record).decode("utf-8").rstrip("\n") for record in records]
        unanswered = False

        def attempt(connection: Connection) -> bool | None:
            nonlocal unanswered
            retried, unanswered = unanswered, True
            done = self._annotate(connection, session_id, lines, retried=retried)
            unanswered = False
            return done

        self.leases.wait_for(session_id, lambda: self.connections.run(attempt))

    def embed_summary(self, session_id: str, summary: str, embedding: dict[str, object]) -> bool:
        """Store the embedding if `summary` is still the session's summary; return whether it is."""
        vector = encode({"summary": summary, "embedding": embedding}).decode("utf-8")
        query = f"""
        UPDATE cortext.sessions SET summary_vector = %s, due_embed = next_seq > embedded_before
        WHERE {LIVE} AND summary = %s RETURNING life
        """
        values = (vector, *self.scope.one(session_id), storable(summary))
        return bool(self.connections.query(self.scope.sql(query), *values))

    def summary_embedding(self, session_id: str, summary: str) -> dict[str, object] | None:
        """Return the stored embedding if it belongs to this summary."""
        query = f"SELECT summary_vector FROM cortext.sessions WHERE {LIVE}"
        rows = self.connections.query(self.scope.sql(query), *self.scope.one(session_id))
        found = decode_value(rows[0][0].encode("utf-8")) if rows and rows[0][0] else {}
        return found["embedding"] if found.get("summary") == summary else None

    def notes(self, session_id: str, life: int) -> Iterator[dict[str, object]]:
        """Yield the records about messages, in the order they were written."""
        number = 0
        while rows := self.connections.query(_NOTES, session_id, life, number):
            yield from (decode_value(row[0].encode("utf-8")) for row in rows)
            number += len(rows)

    def _locked(self, connection: Connection, session_id: str, lease: Target, columns: str) -> tuple[Any, ...] | None:
        """Lock a session's row and return its life and these columns; None if another process holds the session."""
        scope = self.scope
        condition, values = (
            (HELD, scope.held(lease)) if lease else (f"{WRITABLE} AND {FREE}", scope.writable(session_id))
        )
        query = f"SELECT holder, life, {columns} FROM cortext.sessions WHERE {condition} FOR UPDATE"
        row = connection.execute(self.scope.sql(query).encode(), values).fetchone()
        # Without a lease of ours, a row that still names a holder has an expired lease; end it for good.
        if row is not None and row[0] is not None and lease is None:
            end = (
                "UPDATE cortext.sessions SET fence = fence + 1, holder = NULL, token = NULL, held_until = NULL "
                "WHERE session_id = %s AND life = %s"
            )
            connection.execute(end.encode(), (session_id, row[1]))
        return None if row is None else row[1:]

    def _note(self, connection: Connection, session_id: str, action: str) -> None:
        """Note a change of somebody else's session, in the transaction of the change."""
        if self.scope.audited:
            note(connection, self.scope, session_id, action)

    def _compact(self, connection: Connection, session_id: str, before: int) -> int | None:
        with connection.transaction():
            row = self._locked(connection, session_id, None, "archived_before, next_seq")
            if row is None:
                return None
            life, archived, end = row
            end_of_archive = min(max(before, archived), end)
            moved = connection.execute(_COUNT.encode(), (session_id, life, archived, end_of_archive)).fetchone()
            save = "UPDATE cortext.sessions SET archived_before = %s WHERE session_id = %s AND life = %s"
            connection.execute(save.encode(), (end_of_archive, session_id, life))
            self._note(connection, session_id, "compact")
        return int(moved[0]) if moved else 0

    def _annotate(self, connection: Connection, session_id: str, lines: list[str], *, retried: bool) -> bool | None:
        with connection.transaction():
            row = self._locked(connection, session_id, None, "next_note, owner")
            if row is None:
                return None
            life, number, owner = row
            # The answer to an earlier attempt may be lost: check whether it stored these notes.
            if retried and number >= len(lines):
                last = connection.execute(_LAST_NOTES.encode(), (session_id, life, number - len(lines))).fetchall()
                if [line for (line,) in last] == lines:
                    return True
            values = [(session_id, life, number + index, line) for index, line in enumerate(lines)]
            with connection.cursor() as cursor:
                cursor.executemany(b"INSERT INTO cortext.notes VALUES (%s, %s, %s, %s)", values)
            save = "UPDATE cortext.sessions SET next_note = %s WHERE session_id = %s AND life = %s"
            connection.execute(save.encode(), (number + len(lines), session_id, life))
            self._note(connection, session_id, "annotate")
            if self.has_vectors(connection):
                records = [decode_value(line.encode()) for line in lines]
                search.keep(connection, owner, session_id, life, records)
        return True

    def has_vectors(self, connection: Connection) -> bool:
        """Whether the server can search by meaning; a positive answer is cached."""
        if not self._vectors:
            self._vectors = has_vectors(connection)
        return self._vectors
