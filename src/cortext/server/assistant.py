"""An assistant's facts and active chats on the server: see assistant.Facts and assistant.Chats."""

from __future__ import annotations

import hashlib

import msgspec

from cortext.errors import ConfigError, memory_not_found
from cortext.model import clock, ids
from cortext.model.ids import check_id, is_id
from cortext.server.connection import Connections
from cortext.server.driver import Connection
from cortext.store.assistant import Fact, identity
from cortext.store.files.lines import decode_value, encode


class ServerChats:
    """See assistant.Chats."""

    def __init__(self, connections: Connections, space: str) -> None:
        self._connections, self._space = connections, space

    def active(self, chat: str) -> str | None:
        query = "SELECT session_id FROM cortext.chats WHERE chat = %s AND space = %s AND owner = %s"
        rows = self._connections.query(query, chat, self._space, self._connections.owner)
        if not rows:
            return None
        session_id: str = rows[0][0]
        return session_id if is_id(session_id) else ""

    def trouble(self, chat: str) -> str:
        return ""

    def activate(self, chat: str, session_id: str) -> None:
        if session_id:
            check_id(session_id)
        owner = self._connections.owner
        update = "UPDATE cortext.chats SET session_id = %s WHERE chat = %s AND space = %s AND owner = %s RETURNING chat"
        insert = (
            "INSERT INTO cortext.chats (session_id, chat, space, owner) VALUES (%s, %s, %s, %s) "
            "ON CONFLICT DO NOTHING RETURNING chat"
        )
        values = (session_id, check_id(chat), self._space, owner)
        # The second update: another process of the same owner was faster.
        if not any(self._connections.query(query, *values) for query in (update, insert, update)):
            raise not_finished(f"the chat {chat}")


class ServerFacts:
    """See assistant.Facts. A forgotten fact keeps its row and is no longer returned."""

    def __init__(self, connections: Connections, space: str) -> None:
        self._connections, self._space = connections, space

    def all(self) -> list[Fact]:
        query = """
        SELECT record FROM cortext.facts WHERE space = %s AND owner = %s AND forgotten_at IS NULL
        ORDER BY created_at, id
        """
        return [_fact(row[0]) for row in self._connections.query(query, self._space, self._connections.owner)]

    def add(self, fact: Fact) -> Fact:
        kept = msgspec.structs.replace(
            fact, id=fact.id or ids.new_session_id("mem_"), created_at=fact.created_at or clock.now()
        )
        same = hashlib.blake2b(identity(kept).encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()
        owner = self._connections.owner
        values = (self._space, owner, kept.id, same, encode(kept).decode("utf-8"), kept.created_at)

        def insert(connection: Connection) -> Fact | None:
            query = """
            INSERT INTO cortext.facts (space, owner, id, same, record, created_at) VALUES (%s, %s, %s, %s, %s, %s)
            ON CONFLICT DO NOTHING
            """
            connection.execute(query.encode(), values)
            known = """
            SELECT record FROM cortext.facts WHERE space = %s AND owner = %s AND same = %s AND forgotten_at IS NULL
            """
            row = connection.execute(known.encode(), (self._space, owner, same)).fetchone()
            return _fact(row[0]) if row else None

        known = self._connections.run(insert)
        if known is None and not fact.id:
            raise not_finished("this fact")
        # The id belongs to another fact: that one stays, and this one gets a new id.
        return known or self.add(msgspec.structs.replace(kept, id=""))

    def forget(self, fact_id: str, *, by: str = "") -> Fact:
        now = clock.now()
        attempted = False

        def attempt(connection: Connection) -> list[tuple[str, ...]]:
            nonlocal attempted
            query = """
            UPDATE cortext.facts SET forgotten_at = %s, forgotten_by = %s
            WHERE space = %s AND owner = %s AND id = %s AND (forgotten_at IS NULL OR (%s AND forgotten_at = %s))
            RETURNING record
            """
            values = (now, by, self._space, self._connections.owner, fact_id, attempted, now)
            attempted = True  # after a lost answer, the fact may have been forgotten by our own first attempt
            return connection.execute(query.encode(), values).fetchall()

        rows = self._connections.run(attempt)
        if not rows:
            raise memory_not_found(fact_id)
        return _fact(rows[0][0])


def not_finished(what: str) -> ConfigError:
    """Return the error for a key that another owner uses, while the keys of the tables do not contain the owner yet."""
    return ConfigError(
        f"{what} is already used by another owner on this server",
        kept="nothing was changed",
        hint="ask an administrator to run `cortext store migrate --finish`",
    )


def _fact(record: str) -> Fact:
    return msgspec.convert(decode_value(record.encode("utf-8")), Fact)
