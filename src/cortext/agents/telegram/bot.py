"""The bot: accepts updates, keeps chats apart, and makes sure that every update is answered.

An update is durable before it is confirmed to Telegram. Each chat has its own queue, so its messages are answered in
order and no chat waits for another.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from telegram import Bot
from telegram.error import BadRequest, InvalidToken, RetryAfter, TelegramError

from cortext.agents.assistant.commands import COMMANDS, Outcome
from cortext.agents.telegram.answering import PASSING, STOP, STOP_HELP, Answering, Grown, Stopped
from cortext.agents.telegram.formatting import as_markdown
from cortext.agents.telegram.incoming import AGAIN as ASK_AGAIN
from cortext.agents.telegram.incoming import EDIT, NOTHING, WORDS, Incoming, Refused, check_user, number_of, read
from cortext.agents.telegram.logs import LOG
from cortext.agents.telegram.sending import ChatReply, Growing, Line, Undeliverable, seconds_of
from cortext.errors import ConfigError, CortextError, TakenOver
from cortext.store.assistant import PendingUpdate, Updates

LARGEST = 512 * 1024  # characters of the largest update
AGAIN = 3600.0  # seconds until a stranger is told again that this bot is private
LONGEST_PAUSE = 60.0
GRACE = 8.0  # seconds for answers in progress when the process is told to stop


class TelegramBot:
    """Serves one bot."""

    def __init__(
        self,
        bot: Bot,
        answering: Answering,
        updates: Updates,
        *,
        allowed: Collection[int],
        longest: int,
        every_group_message: bool = False,
        parallel: int,
        how_to_allow: Callable[[int], str],
    ) -> None:
        self.bot, self._answering, self._updates = bot, answering, updates
        self._line = Line(bot)
        self._every_group_message = every_group_message
        self._allowed, self._longest, self._how_to_allow = frozenset(allowed), longest, how_to_allow
        self._threads = ThreadPoolExecutor(parallel, thread_name_prefix="turn")
        self._queues: dict[str, deque[tuple[PendingUpdate, Incoming]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._strangers: dict[int, float] = {}
        self.stopping = asyncio.Event()

    # ── incoming updates ─────────────────────────────────────────────────────────────────────────────

    def go_on(self) -> int:
        """Answer what another process accepted and did not finish; return the number of updates."""
        waiting = self._updates.waiting()
        for taken in waiting:
            try:
                incoming = self._read(taken.body)
                check_user(incoming, self._allowed)
                self._enqueue(taken, incoming)
            except Refused as refused:
                LOG.warning("refused: %s (update %d, taken before)", refused, taken.update)
                self._updates.done(taken.update)
        return len(waiting)

    async def take(self, bodies: Sequence[Any]) -> None:
        """Accept updates: they are durable when this returns. On WriteFailed none is accepted."""
        wanted: list[tuple[int, str, dict[str, Any]]] = []
        known: dict[int, Incoming] = {}
        for body in bodies:
            try:
                if len(repr(body)) > LARGEST:
                    raise Refused("an update of more than half a megabyte")
                incoming = self._read(body)
                if incoming.kind == NOTHING:
                    continue
                if not (incoming.addressed or self._every_group_message or await self._continues(incoming, known)):
                    continue
                self._check(incoming)
            except Refused as refused:
                LOG.warning("refused: %s (update %s)", refused, number_of(body))
                continue
            known[incoming.update] = incoming
            wanted.append((incoming.update, incoming.address.name, body))
        # Also without any updates: on a server this renews our claim.
        fresh = await asyncio.to_thread(self._updates.take, wanted)
        for number, _, _ in wanted:
            if not any(taken.update == number for taken in fresh):
                LOG.info("refused: update %s was taken before", number)
        for taken in fresh:
            self._enqueue(taken, known[taken.update])

    async def _continues(self, incoming: Incoming, arriving: dict[int, Incoming]) -> bool:
        """Whether this edits a message that was for the bot: one that arrives with it, waits, or is in the session."""
        if incoming.kind != EDIT or incoming.user not in self._allowed:
            return False
        here = incoming.address, incoming.message
        if any((each.address, each.message) == here for each in arriving.values()):
            return True
        return await asyncio.to_thread(self._has, incoming)

    def _has(self, incoming: Incoming) -> bool:
        # An update waits until its message is stored: in this order, none is missed in between.
        for taken in self._waiting_in(incoming.address.name):
            message = taken.body.get("message", taken.body.get("edited_message"))
            if isinstance(message, dict) and message.get("message_id") == incoming.message:
                return True
        try:
            return self._answering.has(incoming)
        except PASSING:
            raise
        except CortextError as error:
            LOG.warning("update %d: an edit in a group is left out: %s", incoming.update, error.message)
            return False

    def _waiting_in(self, chat: str) -> list[PendingUpdate]:
        """Return the accepted updates of a chat that are not answered yet."""
        return [taken for taken in self._updates.waiting() if taken.chat == chat]

    def _read(self, body: Any) -> Incoming:
        return read(body, longest=self._longest, bot_name=self._name, bot=self.bot.id)

    def _check(self, incoming: Incoming) -> None:
        try:
            check_user(incoming, self._allowed)
        except Refused:
            self._tell_stranger(incoming)
            raise

    def _tell_stranger(self, incoming: Incoming) -> None:
        """Tell a stranger, at most once an hour, that the bot is private; an owner who is not listed learns the id.

        Nothing is said into a group.
        """
        now = time.monotonic()
        if incoming.user <= 0 or incoming.address.is_group or now - self._strangers.get(incoming.user, -AGAIN) < AGAIN:
            return
        if len(self._strangers) > 10_000:
            self._strangers.clear()
        self._strangers[incoming.user] = now
        self._spawn(self._say_once(incoming, self._how_to_allow(incoming.user)))

    async def _say_once(self, incoming: Incoming, text: str) -> None:
        try:
            await self.bot.send_message(incoming.address.chat, text, message_thread_id=incoming.address.thread)
        except TelegramError as error:
            LOG.info("a note to a user was not sent: %s", error)

    # ── outgoing answers ─────────────────────────────────────────────────────────────────────────────

    def _enqueue(self, taken: PendingUpdate, incoming: Incoming) -> None:
        queue = self._queues.get(taken.chat)
        if queue is None:
            queue = self._queues[taken.chat] = deque()
            self._spawn(self._serve(taken.chat, queue))
        queue.append((taken, incoming))
        self._answering.edited(taken.chat, incoming)
        if incoming.text == STOP:
            self._answering.interrupt(taken.chat)  # now, not when its turn comes

    async def _serve(self, chat: str, queue: deque[tuple[PendingUpdate, Incoming]]) -> None:
        """Answer the updates of one chat, one after another."""
        # The queue is empty until the first update is put into it, right after this task is created.
        await asyncio.sleep(0)
        while queue and not self.stopping.is_set():
            taken, incoming = queue[0]
            try:
                await self._answer_with_retries(taken, incoming)
            except Stopped:
                return
            queue.popleft()
        if not queue:
            del self._queues[chat]

    async def _answer_with_retries(self, taken: PendingUpdate, incoming: Incoming) -> None:
        """Answer one update, retrying for as long as the disk or a lock refuses."""
        pause = 1.0
        while not self.stopping.is_set():
            try:
                await self._answer(taken, incoming)
                break
            except PASSING as error:
                LOG.error("update %d waits: %s; retrying in %.0f s", taken.update, error.message, pause)
                await self.pause(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
            except Undeliverable as error:
                LOG.warning("update %d cannot be delivered: %s", taken.update, error)
                break
            except TelegramError as error:
                LOG.error("update %d: Telegram refused the answer: %s", taken.update, error)
                break
            except (Stopped, asyncio.CancelledError):
                raise
            except Exception:
                # An internal error must not block the next message of the chat.
                LOG.exception("update %d could not be answered", taken.update)
                await self._say_once(
                    incoming, "⚠ Something went wrong on my side; the log has the details. Please try again."
                )
                break
        else:
            raise Stopped
        await self._finish(taken)

    async def _finish(self, taken: PendingUpdate) -> None:
        """Record that an update is done. While the disk refuses, only this is retried, not the answer."""
        while True:
            try:
                await asyncio.to_thread(self._updates.done, taken.update)
                return
            except TakenOver:
                raise
            except PASSING as error:
                LOG.error("update %d is answered, but could not be recorded: %s", taken.update, error.message)
                await self.pause(5.0)
                if self.stopping.is_set():
                    raise Stopped from None

    async def _answer(self, taken: PendingUpdate, incoming: Incoming) -> None:
        reply = ChatReply(self._line_of(taken.chat), self._updates, taken.update, incoming.address, taken.sent)
        growing = Growing(asyncio.get_running_loop())
        work = asyncio.get_running_loop().run_in_executor(self._threads, self._work, taken, incoming, growing.grown)
        try:
            if incoming.touched:
                self._spawn(self._acknowledge_button(incoming.touched))
            if incoming.kind in (WORDS, EDIT, ASK_AGAIN):
                await reply.follow(growing, work, self._spawn)
        finally:
            await asyncio.wait([work])  # whatever Telegram says, the next message of this chat has to wait for this
            if not work.cancelled():
                work.exception()  # retrieved, so that asyncio does not warn: an error on the way to Telegram wins
        answer: Outcome | None = await work
        if answer is None:
            return
        await reply.finish(as_markdown(answer), answer.buttons)
        if answer.document:
            await reply.document(answer.name, answer.document)
        if reply.lost:
            LOG.info("update %d: the user deleted the answer while it was being written; sent again", taken.update)

    async def _acknowledge_button(self, button: str) -> None:
        """Acknowledge a pressed button, which spins until then. It is not essential, so it is tried only once."""
        try:
            await self.bot.answer_callback_query(button)
        except TelegramError as error:
            LOG.debug("a button was not acknowledged: %s", error)

    def _line_of(self, chat: str) -> Line:
        """Return the connection to Telegram for one chat."""
        return self._line

    def _work(self, taken: PendingUpdate, incoming: Incoming, grown: Grown) -> Outcome | None:
        """Compute the answer; runs in a thread."""
        return self._answering.answer(taken, incoming, grown)

    # ── process life cycle ───────────────────────────────────────────────────────────────────────────

    async def start(self) -> None:
        """Connect to Telegram; raises ConfigError if it does not know the token."""
        if await self.patiently(self.bot.initialize):
            self._spawn(self._show_commands())

    async def patiently(self, ask: Callable[[], Awaitable[object]]) -> bool:
        """Retry a call that the start needs until it succeeds; return False if we are told to stop first."""
        pause = 1.0
        while not self.stopping.is_set():
            try:
                await ask()
                return True
            except InvalidToken:
                # The library's error contains the token: it must not be the cause of ours.
                raise ConfigError(
                    "unknown bot token", hint="check that TELEGRAM_BOT_TOKEN is what @BotFather gave you"
                ) from None
            except BadRequest as error:
                raise ConfigError(f"Telegram refused the start: {error}", hint="see `alfred telegram --help`") from None
            except RetryAfter as error:
                LOG.warning("Telegram asks to wait %.0f s", seconds_of(error))
                await self.pause(seconds_of(error))
            except TelegramError as error:
                LOG.warning("Telegram is unreachable (%s): retrying in %.0f s", error, pause)
                await self.pause(pause)
                pause = min(2 * pause, LONGEST_PAUSE)
        return False

    async def _show_commands(self) -> None:
        """Set the menu of commands."""
        try:
            menu = [(command.name, command.about[:256]) for command in COMMANDS]
            await self.bot.set_my_commands([*menu, (STOP[1:], STOP_HELP[1])])
        except TelegramError as error:
            LOG.info("the command menu was not set: %s", error)

    @property
    def _name(self) -> str:
        return self.bot.username

    async def stop(self) -> None:
        """Let the answers in progress finish; the next process answers what does not."""
        self.stopping.set()
        self._answering.stop()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=GRACE)
        for task in self._tasks:
            task.cancel()
        self._threads.shutdown(wait=False, cancel_futures=True)

    def _spawn(self, work: Any) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            LOG.error("an answer failed", exc_info=task.exception())

    async def pause(self, seconds: float) -> None:
        """Wait, unless we are told to stop."""
        try:
            await asyncio.wait_for(self.stopping.wait(), seconds)
        except TimeoutError:
            pass
