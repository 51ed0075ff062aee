"""Changes of a session's row on the server: metadata, archive, and the records about its messages.

Each change reads, decides and writes in one transaction, with the row locked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from cortext.model.session import Change, Session
from cortext.server import vectors as postgres_vectors
from cortext.server.audit import note
from cortext.server.connection import Connections
from cortext.server.driver import Connection
from cortext.server.lease import FREE, Lease, Leases
from cortext.server.rows import SESSION, columns_of, storable
from cortext.server.schema import has_vectors
from cortext.server.scope import HELD, LIVE, WRITABLE, Own
from cortext.store.files.lines import decode_value, encode, encode_annotation

PAGE = 500
_SAVE = """
UPDATE cortext.sessions SET record = %s, type = %s, title = %s, status = %s, agent = %s, tool = %s, summary = %s,
    last_active = greatest(last_active, %s), last_hour = greatest(last_hour, %s),
    summary_vector = CASE WHEN summary = %s THEN summary_vector END, due_embed = due_embed OR summary <> %s
WHERE session_id = %s AND life = %s
"""
_NOTES = f"""
SELECT record FROM cortext.notes WHERE session_id = %s AND life = %s AND number >= %s ORDER BY number LIMIT {PAGE}
"""
_LAST_NOTES = "SELECT record FROM cortext.notes WHERE session_id = %s AND life = %s AND number >= %s ORDER BY number"
_COUNT = "SELECT count(*) FROM cortext.messages WHERE session_id = %s AND life = %s AND seq >= %s AND seq < %s"

Target = Lease | None


class Changes:
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
                postgres_vectors.keep(connection, owner, session_id, life, records)
        return True

    def has_vectors(self, connection: Connection) -> bool:
        """Whether the server can search by meaning; a positive answer is cached."""
        if not self._vectors:
            self._vectors = has_vectors(connection)
        return self._vectors
