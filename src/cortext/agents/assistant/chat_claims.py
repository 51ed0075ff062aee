"""Claims of this process on chats, where several processes serve the same ones. A heartbeat renews them.

The server rejects writes of a process that lost its claim. Nothing rejects what is sent to a messenger, so `check` also
compares our own clock: a process that was suspended sends nothing after it wakes up.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from cortext.errors import CortextError, TakenOver
from cortext.store.assistant import PendingUpdate, SharedUpdates, Updates

__all__ = ["ChatClaims", "PendingUpdate", "Updates"]  # faces import the types of updates from here


class ChatClaims:
    """The claims of one process on chats. `on_lost` and `on_updates` are called from the heartbeat thread."""

    def __init__(self, updates: SharedUpdates) -> None:
        self._updates = updates
        self._until: dict[str, float] = {}  # when each claim expires, by our own clock
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._heartbeat: threading.Thread | None = None
        self.on_lost: Callable[[str], None] = lambda chat: None
        self.on_updates: Callable[[str, list[PendingUpdate]], None] = lambda chat, waiting: None

    @property
    def seconds(self) -> float:
        """How long a claim is valid without a renewal."""
        return self._updates.seconds

    def take(self, chat: str) -> bool:
        """Claim the chat; return False if another process holds it."""
        begin = _clock()  # read before the server's clock, so that our claim never seems valid longer than it is
        if not self._updates.claim(chat):
            return False
        with self._lock:
            self._until[chat] = begin + self.seconds
            if self._heartbeat is None:
                self._heartbeat = threading.Thread(target=self._beat, daemon=True, name="chats")
                self._heartbeat.start()
        return True

    def release_chat(self, chat: str) -> None:
        """Give up the claim, so that another process can take the chat."""
        with self._lock:
            self._until.pop(chat, None)
        self._updates.release_chat(chat)

    def check(self, chat: str) -> float:
        """Return for how many seconds the chat is still ours; TakenOver if our claim is lost or has expired."""
        left = self._until.get(chat, 0.0) - _clock()
        if left <= 0:
            raise TakenOver(
                f"another process may have taken over {chat}: this one was inactive for too long",
                kept="everything that was acknowledged",
                hint="the other process continues the chat",
            )
        return left

    def working(self, chat: str) -> AbstractContextManager[None]:
        """See assistant.SharedUpdates."""
        return self._updates.working(chat)

    def waiting(self, chat: str) -> list[PendingUpdate]:
        """Return the unanswered updates of a chat, in order."""
        return self._updates.waiting(chat)

    def unattended(self) -> dict[str, int]:
        """See assistant.SharedUpdates."""
        return self._updates.unattended()

    def close(self) -> None:
        """Release all chats and stop the heartbeat."""
        self._closed.set()
        for chat in list(self._until):
            try:
                self.release_chat(chat)
            except CortextError:
                pass  # the claim expires by itself

    def _beat(self) -> None:
        while not self._closed.wait(self.seconds / 4):
            for chat in list(self._until):
                try:
                    self._renew(chat)
                except CortextError:
                    continue  # the server is unreachable: the next beat may renew the claim before it expires

    def _renew(self, chat: str) -> None:
        begin = _clock()
        kept = self._updates.renew(chat)
        with self._lock:
            if chat not in self._until:
                return  # released meanwhile
            self._until[chat] = begin + self.seconds if kept else 0.0
        if kept:
            self.on_updates(chat, self._updates.waiting(chat))
        else:
            self.on_lost(chat)


def _clock() -> float:
    """Return a monotonic time in seconds that, where the system supports it, includes time spent in sleep."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot is None else time.clock_gettime(boot)
