"""What an assistant keeps beside its sessions, as protocols: facts, the active session of each chat, and the
updates that a messenger sent. A backend may keep them in files (assistant_files) or anywhere else.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

import msgspec

FACT = "fact"
PREFERENCE = "preference"
INSTRUCTION = "instruction"
KINDS = (FACT, PREFERENCE, INSTRUCTION)


class Fact(msgspec.Struct, omit_defaults=True, kw_only=True):
    """Something to be remembered: what, where it comes from, and until when it holds."""

    id: str
    text: str
    kind: str = FACT
    created_at: str = ""
    expires_at: str = ""  # empty: it holds until it is forgotten
    session_id: str = ""  # the talk in which it was said,
    message_id: str = ""  # and the message
    by: str = ""  # who wrote it down: user or model


class Facts(Protocol):
    """The curated facts. Nothing is ever rewritten: to forget is to add that it is forgotten."""

    def all(self) -> list[Fact]:
        """Those that were not forgotten, the oldest first; expired ones too."""

    def add(self, fact: Fact) -> Fact:
        """Keep a fact, durably. One that says the same as one that is there is not kept twice: that one is given."""

    def forget(self, fact_id: str, *, by: str = "") -> Fact:
        """Forget one, durably; NotFound."""


class Chats(Protocol):
    """Which session is active in which chat."""

    def active(self, chat: str) -> str | None:
        """Its id; empty where the chat has none now, None where it never had one."""

    def activate(self, chat: str, session_id: str) -> None:
        """Make it the active one of this chat (empty: none), durably."""


class Taken(msgspec.Struct, kw_only=True):
    """An update that is ours to answer, and how far that got."""

    update: int
    chat: str
    at: str
    body: dict[str, Any]
    sent: list[int] = []  # the messages at the messenger that hold the answer, in order
    facts: dict[str, Any] = {}  # what else was noted on the way


class Updates(Protocol):
    """The messenger's updates: taken durably before they are confirmed, done when the answer is delivered."""

    def take(self, arrived: Sequence[tuple[int, str, dict[str, Any]]]) -> list[Taken]:
        """Keep these (number, chat, body), durably; only those that were not taken before are given back."""

    def sent(self, update: int, message: int) -> None:
        """Another message at the messenger holds a part of the answer."""

    def note(self, update: int, facts: Mapping[str, Any]) -> None:
        """Remember something on the way to the answer."""

    def done(self, update: int) -> None:
        """The answer is delivered, or nothing more can be done."""

    def waiting(self) -> list[Taken]:
        """Taken and not done, in the order of arrival."""


class SharedUpdates(Updates, Protocol):
    """The same for many processes: a chat is worked on by the one that has claimed it, until it lets go or dies."""

    seconds: float  # that a claim lasts, if it is not renewed

    def claim(self, chat: str) -> bool:
        """Make a chat ours; False where another process has it."""

    def renew(self, chat: str) -> bool:
        """Keep it; False where it was lost."""

    def release_chat(self, chat: str) -> None:
        """Leave it to the next one."""

    def working(self, chat: str) -> AbstractContextManager[None]:
        """What this thread appends inside is refused (TakenOver) if the chat is not ours any more."""

    def waiting(self, chat: str = "") -> list[Taken]:
        """Those of one chat, in the order of their numbers."""

    def unattended(self) -> dict[str, int]:
        """Chats whose updates wait and that nobody works on, and how many wait there."""
