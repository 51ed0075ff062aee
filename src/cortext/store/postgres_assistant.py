"""What an assistant keeps beside its sessions, on the server: see assistant.Facts, Chats and Updates, and claims."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from cortext.errors import NotFound, SessionBusy
from cortext.model import clock, ids
from cortext.model.ids import check_id, is_id
from cortext.store.assistant import Fact, Taken
from cortext.store.claims import Claim
from cortext.store.lines import decode_value, encode
from cortext.store.postgres_connection import Connection, Connections

BOT = "bot"
BOT_SECONDS = 30.0

_CLAIM = """
INSERT INTO cortext.claims AS c (key, topic, fence, token, held_until)
VALUES (%(key)s, %(topic)s, 1, %(token)s, now() + %(seconds)s * interval '1 second')
ON CONFLICT (key, topic) DO UPDATE
SET fence = c.fence + 1, token = %(token)s, held_until = now() + %(seconds)s * interval '1 second'
WHERE (c.held_until IS NULL OR c.held_until < now() OR c.token = %(token)s)
    AND (%(version)s = 0 OR c.version < %(version)s)
RETURNING fence
"""
_RENEW = """
UPDATE cortext.claims SET held_until = now() + %s * interval '1 second'
WHERE key = %s AND topic = %s AND fence = %s RETURNING fence
"""
_FINISH = """
UPDATE cortext.claims SET held_until = NULL, version = greatest(version, %s)
WHERE key = %s AND topic = %s AND fence = %s RETURNING fence
"""


class ServerClaims:
    """See claims.Claims."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    def claim(self, topic: str, key: str, seconds: float, *, version: int = 0) -> Claim | None:
        token = secrets.token_hex(8)  # asked again after a lost answer, the server knows us by it
        values = {"key": key, "topic": topic, "token": token, "seconds": seconds, "version": version}
        row = self._connections.run(lambda connection: connection.execute(_CLAIM.encode(), values).fetchone())
        return Claim(key, topic, row[0]) if row else None

    def renew(self, claim: Claim, seconds: float) -> bool:
        return bool(self._connections.query(_RENEW, seconds, *claim))

    def finish(self, claim: Claim, *, version: int = 0) -> bool:
        return bool(self._connections.query(_FINISH, version, *claim))


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
        query = """
        UPDATE cortext.facts SET forgotten_at = %s, forgotten_by = %s
        WHERE space = %s AND id = %s AND (forgotten_at IS NULL OR forgotten_at = %s) RETURNING record
        """
        rows = self._connections.query(query, now, by, self._space, fact_id, now)
        if not rows:
            raise NotFound(f"no memory {fact_id!r}", kept="nothing was changed", hint="see them with `alfred memory`")
        return _fact(rows[0][0])


def _fact(record: str) -> Fact:
    return msgspec.convert(decode_value(record.encode("utf-8")), Fact)


def _same(fact: Fact) -> str:
    """What two facts that say the same have in common: see assistant_files."""
    return " ".join(fact.text.lower().split()).rstrip(".!") + "\n" + fact.expires_at


class ServerUpdates:
    """See assistant.Updates. An update is taken once, by whichever process hears it first."""

    def __init__(self, connections: Connections, bot: int) -> None:
        self._connections, self._bot = connections, bot
        self._claims = ServerClaims(connections)
        self._claim: Claim | None = None
        self._chats: dict[int, str] = {}

    def hold(self) -> None:
        """Become the one process that asks the messenger for updates; with webhooks there may be many."""
        self._claim = self._claims.claim(BOT, str(self._bot), BOT_SECONDS)
        if self._claim is None:
            raise SessionBusy(
                "this bot is served by another process",
                kept="nothing was changed",
                hint=f"stop the other one first; if it died, its claim runs out within {BOT_SECONDS:g} s",
            )

    def release(self) -> None:
        """Let another process serve the bot."""
        if self._claim is not None:
            self._claims.finish(self._claim)
            self._claim = None

    def take(self, arrived: Sequence[tuple[int, str, dict[str, Any]]]) -> list[Taken]:
        if self._claim is not None and not self._claims.renew(self._claim, BOT_SECONDS):
            raise SessionBusy("another process serves this bot now", kept="nothing was taken", hint="end this one")
        token = secrets.token_hex(8)
        wanted = {number: Taken(update=number, chat=chat, at=clock.now(), body=body) for number, chat, body in arrived}
        rows = [
            (taken.chat, self._bot, taken.update, taken.at, encode(taken.body).decode("utf-8"), token)
            for taken in wanted.values()
        ]

        def insert(connection: Connection) -> set[int]:
            query = b"""
            INSERT INTO cortext.updates (chat, bot, number, arrived_at, body, token) VALUES (%s, %s, %s, %s, %s, %s)
            ON CONFLICT DO NOTHING
            """
            with connection.transaction(), connection.cursor() as cursor:
                cursor.executemany(query, rows)
            mine = "SELECT number FROM cortext.updates WHERE chat = ANY(%s) AND bot = %s AND token = %s"
            chats = list({taken.chat for taken in wanted.values()})
            return {row[0] for row in connection.execute(mine.encode(), (chats, self._bot, token))}

        ours = self._connections.run(insert) if rows else set[int]()
        fresh = [taken for number, taken in wanted.items() if number in ours]
        self._chats.update({taken.update: taken.chat for taken in fresh})
        return fresh

    def sent(self, update: int, message: int) -> None:
        def grow(sent: str, facts: str) -> tuple[str, str]:
            known = msgspec.json.decode(sent)
            return (sent if message in known else encode([*known, message]).decode("utf-8")), facts

        self._change(update, grow)

    def note(self, update: int, facts: Mapping[str, Any]) -> None:
        def grow(sent: str, noted: str) -> tuple[str, str]:
            return sent, encode({**decode_value(noted.encode("utf-8")), **facts}).decode("utf-8")

        self._change(update, grow)

    def done(self, update: int) -> None:
        query = "UPDATE cortext.updates SET done_at = %s WHERE chat = %s AND bot = %s AND number = %s RETURNING number"
        self._connections.query(query, clock.now(), self._chat(update), self._bot, update)
        self._chats.pop(update, None)

    def waiting(self, chat: str = "") -> list[Taken]:
        """See assistant.Updates; those of one chat, for a worker that has claimed it."""
        query = """
        SELECT number, chat, arrived_at, body, sent, facts FROM cortext.updates
        WHERE bot = %s AND done_at IS NULL AND (%s = '' OR chat = %s) ORDER BY number
        """
        found = []
        for number, where, at, *texts in self._connections.query(query, self._bot, chat, chat):
            self._chats[number] = where
            found.append(_taken(number, where, at, *(decode_value(text.encode("utf-8")) for text in texts)))
        return found

    def _chat(self, update: int) -> str:
        """The chat of an update: it is the beginning of its key."""
        if update not in self._chats:
            self.waiting()
        return self._chats.get(update, "")

    def _change(self, update: int, grow: Any) -> None:
        key = (self._chat(update), self._bot, update)

        def change(connection: Connection) -> None:
            where = b" WHERE chat = %s AND bot = %s AND number = %s"
            with connection.transaction():
                query = b"SELECT sent, facts FROM cortext.updates" + where + b" FOR UPDATE"
                row = connection.execute(query, key).fetchone()
                if row is not None:
                    save = b"UPDATE cortext.updates SET sent = %s, facts = %s" + where
                    connection.execute(save, (*grow(*row), *key))

        self._connections.run(change)


def _taken(number: int, chat: str, at: str, body: Any, sent: Any, facts: Any) -> Taken:
    return Taken(update=number, chat=chat, at=at, body=body, sent=sent, facts=facts)
