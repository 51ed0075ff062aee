"""What an assistant keeps beside its sessions, on the server: see assistant.Facts and Chats."""

from __future__ import annotations

import hashlib

import msgspec

from cortext.errors import memory_not_found
from cortext.model import clock, ids
from cortext.model.ids import check_id, is_id
from cortext.store.assistant import Fact
from cortext.store.files.lines import decode_value, encode
from cortext.store.postgres.connection import Connections
from cortext.store.postgres.driver import Connection


class ServerChats:
    """See assistant.Chats."""

    def __init__(self, connections: Connections, space: str) -> None:
        self._connections, self._space = connections, space

    def active(self, chat: str) -> str | None:
        query = "SELECT session_id FROM cortext.chats WHERE chat = %s AND space = %s"
        rows = self._connections.query(query, chat, self._space)
        if not rows:
            return None
        session_id: str = rows[0][0]
        return session_id if is_id(session_id) else ""

    def activate(self, chat: str, session_id: str) -> None:
        if session_id:
            check_id(session_id)
        query = """
        INSERT INTO cortext.chats VALUES (%s, %s, %s)
        ON CONFLICT (chat, space) DO UPDATE SET session_id = excluded.session_id RETURNING chat
        """
        self._connections.query(query, check_id(chat), self._space, session_id)


class ServerFacts:
    """See assistant.Facts. What was forgotten stays in its row, and is not given any more."""

    def __init__(self, connections: Connections, space: str) -> None:
        self._connections, self._space = connections, space

    def all(self) -> list[Fact]:
        query = "SELECT record FROM cortext.facts WHERE space = %s AND forgotten_at IS NULL ORDER BY created_at, id"
        return [_fact(row[0]) for row in self._connections.query(query, self._space)]

    def add(self, fact: Fact) -> Fact:
        kept = msgspec.structs.replace(
            fact, id=fact.id or ids.new_session_id("mem_"), created_at=fact.created_at or clock.now()
        )
        same = hashlib.blake2b(_same(kept).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
        values = (self._space, kept.id, same, encode(kept).decode("utf-8"), kept.created_at)

        def insert(connection: Connection) -> Fact | None:
            query = """
            INSERT INTO cortext.facts (space, id, same, record, created_at) VALUES (%s, %s, %s, %s, %s)
            ON CONFLICT DO NOTHING
            """
            connection.execute(query.encode(), values)
            known = "SELECT record FROM cortext.facts WHERE space = %s AND same = %s AND forgotten_at IS NULL"
            row = connection.execute(known.encode(), (self._space, same)).fetchone()
            return _fact(row[0]) if row else None

        known = self._connections.run(insert)
        # An id that is taken by something else: that one stays, and this gets an id of its own.
        return known or self.add(msgspec.structs.replace(kept, id=""))

    def forget(self, fact_id: str, *, by: str = "") -> Fact:
        now = clock.now()
        tried: list[None] = []

        def leave(connection: Connection) -> list[tuple[str, ...]]:
            query = """
            UPDATE cortext.facts SET forgotten_at = %s, forgotten_by = %s
            WHERE space = %s AND id = %s AND (forgotten_at IS NULL OR (%s AND forgotten_at = %s)) RETURNING record
            """
            values = (now, by, self._space, fact_id, bool(tried), now)
            tried.append(None)  # asked again after a lost answer, it may be our own work that we find
            return connection.execute(query.encode(), values).fetchall()

        rows = self._connections.run(leave)
        if not rows:
            raise memory_not_found(fact_id)
        return _fact(rows[0][0])


def _fact(record: str) -> Fact:
    return msgspec.convert(decode_value(record.encode("utf-8")), Fact)


def _same(fact: Fact) -> str:
    """What two facts that say the same have in common: see assistant_files."""
    return " ".join(fact.text.lower().split()).rstrip(".!") + "\n" + fact.expires_at
