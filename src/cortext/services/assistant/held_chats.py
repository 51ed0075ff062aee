"""The chats that this process works on, where many processes serve the same ones: kept by a heartbeat, lost by silence.

The server refuses what a process writes that lost its claim. Nobody can refuse for us what goes to a messenger: so
`check` looks at our own clock too, and a process that was stopped says nothing more when it wakes up.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from cortext.errors import CortextError, TakenOver
from cortext.store.assistant import SharedUpdates, Taken, Updates

__all__ = ["HeldChats", "Taken", "Updates"]  # a face knows the updates of a messenger from here


class HeldChats:
    """The claims of one process on chats. `lost` and `news` are called from the thread of the heartbeat."""

    def __init__(self, updates: SharedUpdates) -> None:
        self._updates = updates
        self._until: dict[str, float] = {}  # by our own clock
        self._one = threading.Lock()
        self._ended = threading.Event()
        self._heart: threading.Thread | None = None
        self.lost: Callable[[str], None] = lambda chat: None
        self.news: Callable[[str, list[Taken]], None] = lambda chat, waiting: None

    @property
    def seconds(self) -> float:
        """How long a claim outlives its process."""
        return self._updates.seconds

    def take(self, chat: str) -> bool:
        """Make the chat ours; False where another process works on it."""
        begin = _clock()  # before the server's own: we must not believe longer than it does
        if not self._updates.claim(chat):
            return False
        with self._one:
            self._until[chat] = begin + self.seconds
            if self._heart is None:
                self._heart = threading.Thread(target=self._beat, daemon=True, name="chats")
                self._heart.start()
        return True

    def release_chat(self, chat: str) -> None:
        """Leave the chat to the next one."""
        with self._one:
            self._until.pop(chat, None)
        self._updates.release_chat(chat)

    def check(self, chat: str) -> None:
        """TakenOver where the chat is not ours any more, or may not be."""
        if _clock() >= self._until.get(chat, 0.0):
            raise TakenOver(
                f"{chat} may be another process's by now: this one had been silent for too long",
                kept="everything that was acknowledged",
                hint="the other one goes on with it",
            )

    def working(self, chat: str) -> AbstractContextManager[None]:
        """See assistant.SharedUpdates."""
        return self._updates.working(chat)

    def waiting(self, chat: str) -> list[Taken]:
        """The updates of a chat that are to be answered, in order."""
        return self._updates.waiting(chat)

    def left_alone(self) -> dict[str, int]:
        """See assistant.SharedUpdates."""
        return self._updates.left_alone()

    def close(self) -> None:
        """Let go of everything."""
        self._ended.set()
        for chat in list(self._until):
            try:
                self.release_chat(chat)
            except CortextError:
                pass  # then it runs out

    def _beat(self) -> None:
        while not self._ended.wait(self.seconds / 4):
            for chat in list(self._until):
                try:
                    self._renew(chat)
                except CortextError:
                    continue  # the server is away: the next beat may reach it in time, else the claim is lost

    def _renew(self, chat: str) -> None:
        begin = _clock()
        kept = self._updates.renew(chat)
        with self._one:
            if chat not in self._until:
                return  # let go of meanwhile
            self._until[chat] = begin + self.seconds if kept else 0.0
        if kept:
            self.news(chat, self._updates.waiting(chat))
        else:
            self.lost(chat)


def _clock() -> float:
    """Seconds that pass also while the machine sleeps, where the system can tell."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot is None else time.clock_gettime(boot)
