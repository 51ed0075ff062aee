"""What the assistant keeps on the server: facts, active chats and updates (see store.assistant).

An update is accepted once, by whichever process receives it first. Its chat is handled by one process at a time, the
one that claimed it; updates that arrive meanwhile wait on the server, in the order of their numbers.
"""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import msgspec

from cortext.errors import ConfigError, SessionBusy, TakenOver, memory_not_found
from cortext.model import clock, ids
from cortext.model.ids import check_id, is_id
from cortext.server.connection import Connections
from cortext.server.driver import Connection
from cortext.server.lease import ServerClaims, lock_claim
from cortext.store.assistant import Fact, PendingUpdate, identity
from cortext.store.files.lines import decode_value, encode
from cortext.store.server_capabilities import Claim


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


BOT = "bot"
BOT_SECONDS = 30.0
# Messengers repeat an update for a day at most, so older ones need not be remembered.
REMEMBERED_SECONDS = 2 * 86_400.0
_KEY = " WHERE chat = %s AND bot = %s AND number = %s AND owner = %s"
_LEFT_ALONE = """
SELECT u.chat, count(*) FROM cortext.updates u
LEFT JOIN cortext.claims c ON c.key = u.chat AND c.topic = %s AND c.owner = u.owner
WHERE u.bot = %s AND u.owner = %s AND u.done_at IS NULL AND (c.held_until IS NULL OR c.held_until < now())
GROUP BY u.chat
"""

UnderClaim = Callable[[Claim], AbstractContextManager[None]]


class ServerUpdates:
    """See assistant.SharedUpdates."""

    def __init__(self, connections: Connections, bot: int, under_claim: UnderClaim, seconds: float) -> None:
        self._connections, self._bot, self._under_claim = connections, bot, under_claim
        self.seconds = seconds
        self._claims = ServerClaims(connections)
        self._bot_claim: Claim | None = None
        self._pending: dict[int, PendingUpdate] = {}
        self._claimed: dict[str, Claim] = {}
        self._lock = threading.Lock()  # threads of this process answer several chats at once

    def hold(self) -> None:
        """Become the one process that polls the messenger; SessionBusy. Webhooks do not need this."""
        self._bot_claim = self._claims.claim(BOT, str(self._bot), BOT_SECONDS)
        if self._bot_claim is None:
            raise SessionBusy(
                "another process already serves this bot",
                kept="nothing was changed",
                hint=f"stop the other process first; if it crashed, its claim expires within {BOT_SECONDS:g} s",
            )

    def release(self) -> None:
        """Let another process serve the bot."""
        if self._bot_claim is not None:
            self._claims.finish(self._bot_claim)
            self._bot_claim = None

    @property
    def _owner(self) -> str:
        return self._connections.owner

    # ── claims on chats ──────────────────────────────────────────────────────────────────────────────

    def claim(self, chat: str) -> bool:
        claim = self._claims.claim(f"{BOT}-{self._bot}", chat, self.seconds)
        if claim is not None:
            with self._lock:
                self._claimed[chat] = claim
        return claim is not None

    def renew(self, chat: str) -> bool:
        claim = self._claimed.get(chat)
        return claim is not None and self._claims.renew(claim, self.seconds)

    def release_chat(self, chat: str) -> None:
        with self._lock:
            claim = self._claimed.pop(chat, None)
            self._pending = {number: taken for number, taken in self._pending.items() if taken.chat != chat}
        if claim is not None and self._claims.finish(claim):
            oldest = clock.from_epoch(time.time() - REMEMBERED_SECONDS)
            query = (
                "DELETE FROM cortext.updates "
                "WHERE chat = %s AND bot = %s AND owner = %s AND done_at < %s RETURNING number"
            )
            self._connections.query(query, chat, self._bot, self._owner, oldest)

    def working(self, chat: str) -> AbstractContextManager[None]:
        claim = self._claimed.get(chat)
        if claim is None:
            raise TakenOver(f"another process handles {chat} now", kept="everything acknowledged before")
        return self._under_claim(claim)

    def unattended(self) -> dict[str, int]:
        return dict(self._connections.query(_LEFT_ALONE, f"{BOT}-{self._bot}", self._bot, self._owner))

    # ── updates ──────────────────────────────────────────────────────────────────────────────────────

    def take(self, arrived: Sequence[tuple[int, str, dict[str, Any]]]) -> list[PendingUpdate]:
        if self._bot_claim is not None and not self._claims.renew(self._bot_claim, BOT_SECONDS):
            raise SessionBusy("another process serves this bot now", kept="nothing was changed", hint="stop this one")
        token = secrets.token_hex(8)
        wanted = {
            number: PendingUpdate(update=number, chat=chat, at=clock.now(), body=body) for number, chat, body in arrived
        }
        rows = [
            (taken.chat, self._bot, taken.update, taken.at, encode(taken.body).decode("utf-8"), token, self._owner)
            for taken in wanted.values()
        ]

        def insert(connection: Connection) -> set[int]:
            query = b"""
            INSERT INTO cortext.updates (chat, bot, number, arrived_at, body, token, owner)
            VALUES (%s, %s, %s, %s, %s, %s, %s) ON CONFLICT DO NOTHING
            """
            with connection.transaction(), connection.cursor() as cursor:
                cursor.executemany(query, rows)
            by_token = (
                "SELECT number FROM cortext.updates WHERE chat = ANY(%s) AND bot = %s AND owner = %s AND token = %s"
            )
            chats = list({taken.chat for taken in wanted.values()})
            return {row[0] for row in connection.execute(by_token.encode(), (chats, self._bot, self._owner, token))}

        accepted = self._connections.run(insert) if rows else set[int]()
        return [taken for number, taken in wanted.items() if number in accepted]

    def sent(self, update: int, message: int) -> None:
        def extended(sent: str, facts: str) -> tuple[str, str]:
            known = msgspec.json.decode(sent)
            return (sent if message in known else encode([*known, message]).decode("utf-8")), facts

        self._change(update, extended)

    def note(self, update: int, facts: Mapping[str, Any]) -> None:
        def extended(sent: str, noted: str) -> tuple[str, str]:
            return sent, encode({**decode_value(noted.encode("utf-8")), **facts}).decode("utf-8")

        self._change(update, extended)
        if update in self._pending:
            self._pending[update].facts.update(facts)

    def done(self, update: int) -> None:
        chat = self._chat(update)

        def mark_done(connection: Connection) -> None:
            with connection.transaction():
                self._check(connection, chat)
                query = "UPDATE cortext.updates SET done_at = %s" + _KEY
                connection.execute(query.encode(), (clock.now(), chat, self._bot, update, self._owner))

        self._connections.run(mark_done)
        with self._lock:
            self._pending.pop(update, None)

    def waiting(self, chat: str = "") -> list[PendingUpdate]:
        """See assistant.SharedUpdates; without a chat, the updates of all chats."""
        query = """
        SELECT number, chat, arrived_at, body, sent, facts FROM cortext.updates
        WHERE bot = %s AND owner = %s AND done_at IS NULL AND (%s = '' OR chat = %s) ORDER BY number
        """
        found = []
        for number, chat_of_update, at, *texts in self._connections.query(query, self._bot, self._owner, chat, chat):
            found.append(_taken(number, chat_of_update, at, *(decode_value(text.encode("utf-8")) for text in texts)))
        with self._lock:
            self._pending |= {taken.update: taken for taken in found}
        return found

    def _chat(self, update: int) -> str:
        """Return the chat of an update, which is part of its key; empty if the update is done or unknown."""
        if update not in self._pending:
            self.waiting()
        taken = self._pending.get(update)
        return taken.chat if taken else ""

    def _check(self, connection: Connection, chat: str) -> None:
        """Raise TakenOver if this process had claimed the chat and lost it."""
        claim = self._claimed.get(chat)
        if claim is not None:
            lock_claim(connection, self._connections.owner, claim)

    def _change(self, update: int, extended: Callable[[str, str], tuple[str, str]]) -> None:
        chat = self._chat(update)
        key = (chat, self._bot, update, self._owner)

        def change(connection: Connection) -> None:
            with connection.transaction():
                self._check(connection, chat)
                query = f"SELECT sent, facts FROM cortext.updates{_KEY} FOR UPDATE"
                row = connection.execute(query.encode(), key).fetchone()
                if row is not None:
                    save = f"UPDATE cortext.updates SET sent = %s, facts = %s{_KEY}"
                    connection.execute(save.encode(), (*extended(*row), *key))

        self._connections.run(change)


def _taken(number: int, chat: str, at: str, body: Any, sent: Any, facts: Any) -> PendingUpdate:
    return PendingUpdate(update=number, chat=chat, at=at, body=body, sent=sent, facts=facts)
