"""What a worker has to look at where the sessions are on a server, which knows it by an index of its own.

The same as index.chores; any number of workers may ask.
"""

from __future__ import annotations

import random
from typing import Protocol

from cortext.index.chores import Due


class Marks(Protocol):
    """What the server knows about chores (see store.postgres_chores)."""

    def due(self, chore: str) -> list[tuple[str, int, str]]:
        """Ids of sessions, the end of their log, their last activity: those that wait longest."""

    def settled(self, chore: str, session_id: str, end: int) -> None:
        """Nothing is left to do up to this end of the log."""


class ServerToDo:
    """See chat_worker.ToDo."""

    def __init__(self, marks: Marks) -> None:
        self._marks = marks

    def refresh(self) -> None:
        """The server is always up to date."""

    def due(self, chore: str) -> list[Due]:
        """Sessions that went on since this chore was found done, in no order: many workers ask, and begin apart."""
        found = [Due(session_id, str(end), last_active) for session_id, end, last_active in self._marks.due(chore)]
        random.shuffle(found)
        return found

    def settled(self, chore: str, session: Due) -> None:
        """Nothing is left to do, as long as the session does not go on."""
        self._marks.settled(chore, session.id, int(session.signs))
