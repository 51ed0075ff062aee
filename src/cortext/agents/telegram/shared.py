"""One of several processes that serve the same bot, with its updates on a server, and its claims on chats.

Whichever process receives an update stores it; whichever claims its chat answers it. A process that finds the chat
claimed leaves the update to the other one, which checks once more after releasing it. The others find what a dead
process left. A heartbeat renews the claims. The server rejects writes of a process that lost its claim; nothing rejects
what is sent to a messenger, so `check` also compares our own clock: a process that was suspended sends nothing after
it wakes up.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from cortext.agents.assistant.commands import Outcome
from cortext.agents.telegram.answering import STOP, Grown, Stopped
from cortext.agents.telegram.bot import TelegramBot
from cortext.agents.telegram.incoming import Incoming, Refused, check_user
from cortext.agents.telegram.logs import LOG
from cortext.agents.telegram.sending import Line
from cortext.errors import CortextError, TakenOver
from cortext.store.assistant import PendingUpdate, SharedUpdates


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


T = TypeVar("T")


class SharedBot(TelegramBot):
    """Serves a bot together with other processes."""

    def __init__(self, *given: Any, chats: ChatClaims, parallel: int, **more: Any) -> None:
        super().__init__(*given, parallel=parallel, **more)
        self._chats = chats
        self._room = asyncio.Semaphore(parallel)  # what does not fit is left to processes with free capacity
        self._attended: set[str] = set()
        self._again: set[str] = set()
        chats.on_lost = self._answering.interrupt
        chats.on_updates = self._look_for_stop

    def go_on(self) -> int:
        """Answer what no process is working on, now and from time to time; return how many updates there are now."""
        left = self._chats.unattended()
        for chat in left:
            self._attend(chat)
        self._spawn(self._look_around())
        return sum(left.values())

    async def stop(self) -> None:
        """Stop as TelegramBot does, then release our chats so that others can continue with them at once."""
        await super().stop()
        await asyncio.to_thread(self._chats.close)

    def _enqueue(self, taken: PendingUpdate, incoming: Incoming) -> None:
        if incoming.text == STOP:
            self._answering.interrupt(taken.chat)  # if another process writes the answer, that one looks for /stop
        self._answering.edited(taken.chat, incoming)
        self._attend(taken.chat)

    def _look_for_stop(self, chat: str, waiting: list[PendingUpdate]) -> None:
        """Obey a /stop that another process received, and notice an edit of what is being answered."""
        if any(_text(taken) == STOP for taken in waiting[1:]):
            self._answering.interrupt(chat)
        self._note_edits(chat, waiting[1:])

    def _note_edits(self, chat: str, waiting: list[PendingUpdate]) -> None:
        for taken in waiting:
            if "edited_message" in taken.body:
                try:
                    self._answering.edited(chat, self._read(taken.body))
                except Refused:
                    pass  # it is refused when its turn comes

    def _waiting_in(self, chat: str) -> list[PendingUpdate]:
        return self._chats.waiting(chat)

    async def _look_around(self) -> None:
        """Look for chats of processes that died."""
        while not self.stopping.is_set():
            await self.pause(self._chats.seconds / 3 * random.uniform(0.7, 1.3))
            try:
                for chat in await asyncio.to_thread(self._chats.unattended):
                    self._attend(chat)
            except CortextError as error:
                LOG.warning("could not look for chats of other processes: %s", error.message)

    def _attend(self, chat: str) -> None:
        if chat in self._attended:
            self._again.add(chat)
        elif not self.stopping.is_set():
            self._attended.add(chat)
            self._spawn(self._serve_chat(chat))

    async def _serve_chat(self, chat: str) -> None:
        """Work on a chat as long as updates wait in it and no other process holds it."""
        try:
            async with self._room:
                more = True
                while more and not self.stopping.is_set():
                    self._again.discard(chat)
                    # Updates that others stored while we held the chat were left to us: check again after releasing it.
                    more = await self._work_off(chat) and bool(await asyncio.to_thread(self._chats.waiting, chat))
                    more = more or chat in self._again
        except Stopped:
            pass
        except CortextError as error:
            LOG.error("chat %s waits: %s", chat, error.message)  # `_look_around` finds it again
        finally:
            self._attended.discard(chat)
            self._again.discard(chat)

    async def _work_off(self, chat: str) -> bool:
        """Answer what waits in a chat, in order; return False if another process is working on it."""
        if not await asyncio.to_thread(self._chats.take, chat):
            return False
        try:
            while (waiting := await asyncio.to_thread(self._chats.waiting, chat)) and not self.stopping.is_set():
                self._note_edits(chat, waiting)
                for taken in waiting:
                    await self._answer_claimed(taken)
        finally:
            await asyncio.to_thread(self._chats.release_chat, chat)
        return True

    async def _answer_claimed(self, taken: PendingUpdate) -> None:
        try:
            incoming = self._read(taken.body)
            check_user(incoming, self._allowed)
        except Refused as refused:
            LOG.warning("refused: %s (update %d, taken before)", refused, taken.update)
            await self._finish(taken)
            return
        await self._answer_with_retries(taken, incoming)

    async def _answer(self, taken: PendingUpdate, incoming: Incoming) -> None:
        try:
            await super()._answer(taken, incoming)
        except TakenOver as error:
            LOG.warning("update %d is left to another process: %s", taken.update, error.message)
            raise Stopped from None

    async def _finish(self, taken: PendingUpdate) -> None:
        try:
            await super()._finish(taken)
        except TakenOver as error:
            LOG.warning("update %d is left to another process: %s", taken.update, error.message)
            raise Stopped from None

    def _line_of(self, chat: str) -> Line:
        return OwnLine(self._line, lambda: self._chats.check(chat))

    def _work(self, taken: PendingUpdate, incoming: Incoming, grown: Grown) -> Outcome | None:
        with self._chats.working(taken.chat):
            return super()._work(taken, incoming, grown)


class OwnLine(Line):
    """The connection to Telegram, usable as long as the chat is ours."""

    def __init__(self, line: Line, check: Callable[[], float]) -> None:
        super().__init__(line.bot)
        self._check = check  # returns the seconds for which the chat is ours, or raises TakenOver

    async def call(self, ask: Callable[[], Awaitable[T]], *, patient: bool = True) -> T:
        async def bounded() -> T:
            """Call, and give up when the claim ends: sent later, it could undo what another process has sent."""
            self._check()
            calling = asyncio.ensure_future(ask())
            try:
                while not calling.done():
                    await asyncio.wait([calling], timeout=self._check())  # a renewed claim gives it more time
                return calling.result()
            finally:
                calling.cancel()

        return await super().call(bounded, patient=patient)


def _text(taken: PendingUpdate) -> str:
    message = taken.body.get("message")
    text = message.get("text") if isinstance(message, dict) else None
    return text.strip().partition("@")[0] if isinstance(text, str) else ""
