"""Protocols for what an assistant stores beside its sessions: facts, the active session of each chat, the updates that
a messenger sent, and which work on a session is due. `files.assistant`, `index.derived` and `server` implement them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol, runtime_checkable

import msgspec

from cortext.model.ids import chat_of

FACT = "fact"
PREFERENCE = "preference"
INSTRUCTION = "instruction"
KINDS = (FACT, PREFERENCE, INSTRUCTION)

EMBED, SUMMARISE = "embed", "summarise"  # the chores of the worker


class Fact(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A fact to remember: its text, where it came from, and when it expires."""

    id: str
    text: str
    kind: str = FACT
    created_at: str = ""
    expires_at: str = ""  # empty: never
    session_id: str = ""  # the session it was stated in
    message_id: str = ""  # the message it was stated in
    by: str = ""  # who recorded it: user or model


def identity(fact: Fact) -> str:
    """Return what equal facts have in common: the words, the expiry, and the messenger's chat that they belong to."""
    words = " ".join(fact.text.lower().split()).rstrip(".!")
    return "\n".join(filter(None, (f"{words}\n{fact.expires_at}", chat_of(fact.session_id))))


class Facts(Protocol):
    """The curated facts. Nothing is rewritten: forgetting a fact adds a record that says so."""

    def all(self) -> list[Fact]:
        """Return the facts that were not forgotten, oldest first, including expired ones."""

    def add(self, fact: Fact) -> Fact:
        """Store a fact durably and return it; if an equal fact exists, return that one instead."""

    def forget(self, fact_id: str, *, by: str = "") -> Fact:
        """Forget a fact durably and return it; NotFound."""


class Chats(Protocol):
    """Which session is active in which chat."""

    def active(self, chat: str) -> str | None:
        """Return the id of the chat's active session; empty if it has none now, None if it never had one."""

    def trouble(self, chat: str) -> str:
        """Return why it cannot be known which session is active in a chat; empty if nothing is damaged."""

    def activate(self, chat: str, session_id: str) -> None:
        """Make a session the active one of this chat (empty: none), durably."""


class PendingUpdate(msgspec.Struct, kw_only=True):
    """An update that was accepted for answering, and the progress of its answer."""

    update: int
    chat: str
    at: str
    body: dict[str, Any]
    sent: list[int] = []  # the messenger's ids of the messages that hold the answer, in order
    facts: dict[str, Any] = {}  # what else was noted while answering


class Updates(Protocol):
    """The messenger's updates: stored durably before they are confirmed, done when the answer is delivered."""

    def hold(self) -> None:
        """Make this process the only one that takes updates of this bot, if it must be; SessionBusy."""

    def release(self) -> None:
        """Let another process take them."""

    def take(self, arrived: Sequence[tuple[int, str, dict[str, Any]]]) -> list[PendingUpdate]:
        """Store these (number, chat, body) durably; return only those that were not stored before."""

    def sent(self, update: int, message: int) -> None:
        """Record that another message at the messenger holds a part of the answer."""

    def note(self, update: int, facts: Mapping[str, Any]) -> None:
        """Record facts about the answer in progress."""

    def done(self, update: int) -> None:
        """Record that the answer is delivered, or that nothing more can be done."""

    def waiting(self) -> list[PendingUpdate]:
        """Return the updates that are not done, in the order of arrival."""


@runtime_checkable
class SharedUpdates(Updates, Protocol):
    """Updates shared by many processes; the process that claims a chat handles it until it releases it or dies."""

    seconds: float  # how long a claim lasts if it is not renewed

    def claim(self, chat: str) -> bool:
        """Claim a chat; False if another process holds it."""

    def renew(self, chat: str) -> bool:
        """Extend the claim; False if it was lost."""

    def release_chat(self, chat: str) -> None:
        """Release the claim, so that another process can claim the chat."""

    def working(self, chat: str) -> AbstractContextManager[None]:
        """Return a context in which this thread's appends raise TakenOver once the claim on the chat is lost."""

    def waiting(self, chat: str = "") -> list[PendingUpdate]:
        """Return the updates of one chat that are not done, in the order of their numbers."""

    def unattended(self) -> dict[str, int]:
        """Return the unclaimed chats that have waiting updates, with the number of updates."""


class Due(NamedTuple):
    """A session that a chore has to check, with the current fingerprint of its files."""

    id: str
    signs: str
    last_active: str


class Jobs(Protocol):
    """The outstanding work of the background worker."""

    def due(self, chore: str) -> list[Due]:
        """Return the sessions that changed since this chore was last settled, oldest first."""

    def settled(self, chore: str, session: Due) -> None:
        """Record that nothing is left to do until the session changes."""
