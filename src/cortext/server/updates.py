"""A messenger's updates on the server, for one process or many: see assistant.SharedUpdates.

An update is accepted once, by whichever process receives it first. Its chat is handled by one process at a time, the
one that claimed it; updates that arrive meanwhile wait on the server, in the order of their numbers.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import msgspec

from cortext.errors import SessionBusy, TakenOver
from cortext.model import clock
from cortext.server.claims import ServerClaims, lock_claim
from cortext.server.connection import Connections
from cortext.server.driver import Connection
from cortext.store.assistant import PendingUpdate
from cortext.store.claims import Claim
from cortext.store.files.lines import decode_value, encode

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
