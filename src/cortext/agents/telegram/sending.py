"""One answer on its way to Telegram: shown while it grows, and delivered exactly once, whatever is killed.

Telegram cannot be asked whether a message was sent. So a message is first sent as a placeholder (…), its id is made
durable, and only then it gets its text by an edit, which can be repeated safely. A crash can leave a lone placeholder,
never a second answer. Everything that is sent goes through here, without secrets.
"""

from __future__ import annotations

import asyncio
import datetime
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

from telegram import Bot, InlineKeyboardButton, InlineKeyboardMarkup, MessageEntity
from telegram.constants import ChatAction
from telegram.error import BadRequest, ChatMigrated, Forbidden, NetworkError, RetryAfter, TelegramError

from cortext.agents.telegram.formatting import Styled, render, split, units
from cortext.agents.telegram.incoming import Address
from cortext.agents.telegram.logs import LOG
from cortext.safety.secrets.masking import mask

SIGN = "…"
EVERY = 1.2  # seconds between two edits of a growing answer
EVERY_IN_GROUP = 3.5  # the same in a group, where Telegram allows twenty a minute
TYPING = 4.5  # Telegram shows "typing" for five seconds
LONGEST_WAIT = 30.0
_PLAIN_WORD = 12  # letters: no key begins with this many without a digit

T = TypeVar("T")


class Undeliverable(Exception):
    """The user blocked the bot, or the chat is gone: the answer has no recipient."""


class MessageGone(Exception):
    """The message to edit was deleted."""


class Journal(Protocol):
    """Makes durable which messages hold the answer."""

    def sent(self, update: int, message: int) -> None: ...


class Line:
    """The connection to Telegram: waits as long as Telegram asks, and retries where that is safe."""

    def __init__(self, bot: Bot) -> None:
        self.bot = bot

    async def call(self, ask: Callable[[], Awaitable[T]], *, patient: bool = True) -> T:
        """Call, and retry after flood limits and lost connections; impatient callers get the error instead."""
        pause = 0.5
        while True:
            try:
                return await ask()
            except RetryAfter as error:
                if not patient:
                    raise
                LOG.info("Telegram asks to wait %.0f s", seconds_of(error))
                await asyncio.sleep(seconds_of(error) + 0.1)
            except BadRequest as error:
                if "not modified" in str(error).lower():
                    raise _Same from error
                if _is_gone(error):
                    raise MessageGone from error
                if "chat not found" in str(error).lower():
                    raise Undeliverable(str(error)) from error
                raise
            except Forbidden as error:
                raise Undeliverable(str(error)) from error
            except NetworkError as error:  # also the 5xx of the server
                if not patient:
                    raise
                LOG.warning("Telegram is unreachable (%s): retrying in %.1f s", error, pause)
                await asyncio.sleep(pause)
                pause = min(pause * 2, LONGEST_WAIT)


class _Same(Exception):
    """The message already has that text."""


def seconds_of(error: RetryAfter) -> float:
    """Return how long Telegram wants us to wait; the library returns a number or a duration."""
    wait = error.retry_after
    return wait.total_seconds() if isinstance(wait, datetime.timedelta) else float(wait)


def _is_gone(error: BadRequest) -> bool:
    text = str(error).lower()
    return "message to edit not found" in text or "message can't be edited" in text or "message_id_invalid" in text


class Growing:
    """An answer that grows in another thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.text = ""
        self._news: asyncio.Future[None] = loop.create_future()

    def grown(self, text: str) -> None:
        """Set the text so far; called from the thread."""
        self.text = text
        self._loop.call_soon_threadsafe(self._notify)

    def _notify(self) -> None:
        if not self._news.done():
            self._news.set_result(None)

    def news(self) -> asyncio.Future[None]:
        """Return a future that is done when the text has grown since the last call."""
        if self._news.done():
            self._news = self._loop.create_future()
        return self._news


class ChatReply:
    """The answer to one update: `show` while it grows, `finish` when it is complete."""

    def __init__(self, line: Line, journal: Journal, update: int, address: Address, sent: list[int]) -> None:
        self._line, self._journal, self._update, self._address = line, journal, update, address
        self._messages = sent  # the journal's own list: a second attempt finds what the first one sent
        self._shown: dict[int, Styled] = {}
        self._next = 0.0
        self._buttons: InlineKeyboardMarkup | None = None  # under the last message, once the answer is complete
        self.lost: list[int] = []  # messages that the user deleted before they were complete

    async def follow(
        self, growing: Growing, work: asyncio.Future[Any], spawn: Callable[[Coroutine[Any, Any, None]], None]
    ) -> None:
        """Show the answer while it grows, until the work on it is done; "typing" until there is something to show."""
        begun, typed = False, -TYPING
        while not work.done():
            now = time.monotonic()
            if not growing.text and now - typed >= TYPING:
                typed = now
                spawn(self.typing())
            events: list[asyncio.Future[Any]] = [work, growing.news()]
            await asyncio.wait(events, timeout=TYPING, return_when=asyncio.FIRST_COMPLETED)
            if growing.text and not work.done():
                if not begun:
                    begun = True
                    await self.begin()
                await self.show(growing.text)
                await asyncio.wait([work], timeout=0.2)

    async def begin(self) -> None:
        """Show that an answer is coming. An error from Telegram will show up again when the answer is complete."""
        try:
            if not self._messages:
                await self._send_placeholder()
        except TelegramError as error:
            LOG.info("an answer could not be started: %s", error)

    async def typing(self) -> None:
        """Show "typing"; it is not essential, so it is not retried."""
        try:
            await self._line.bot.send_chat_action(
                self._address.chat, ChatAction.TYPING, message_thread_id=self._address.thread
            )
        except TelegramError:
            pass

    async def show(self, markdown: str) -> None:
        """Show the answer so far. What Telegram refuses now is shown by the next call, or at the end."""
        now = time.monotonic()
        if now < self._next or not markdown.strip():
            return
        self._next = now + (EVERY_IN_GROUP if self._address.is_group else EVERY)
        shown = mask(_without_last_word(markdown)).text
        if not shown.strip():
            return
        try:
            await self._put(split(render(shown)), patient=False)
        except RetryAfter as error:
            self._next = now + seconds_of(error)
        except (TelegramError, MessageGone) as error:
            LOG.debug("an edit was skipped: %s", error)

    async def finish(self, markdown: str, buttons: Sequence[tuple[str, str]] = ()) -> None:
        """Deliver the complete answer and its buttons; returns when Telegram has it all. May raise Undeliverable."""
        pieces = split(render(mask(markdown).text)) or [Styled(SIGN, [])]
        # Telegram allows 64 bytes of data per button.
        rows = [
            [InlineKeyboardButton(mask(label).text, callback_data=data)]
            for label, data in buttons
            if len(data.encode()) <= 64
        ]
        self._buttons = InlineKeyboardMarkup(rows) if rows else None
        if self._buttons is not None:
            self._shown.pop(len(pieces) - 1, None)
        while True:
            try:
                await self._put(pieces, patient=True)
                break
            except MessageGone:
                # The user deleted it: send it again as a new message.
                self.lost += self._messages
                self._messages, self._shown = [], {}
            except ChatMigrated as error:
                self._address = self._address._replace(chat=error.new_chat_id)
                self._messages, self._shown = [], {}
        for extra in self._messages[len(pieces) :]:
            # An earlier attempt, interrupted by a crash, was longer.
            try:
                await self._line.bot.delete_message(self._address.chat, extra)
            except TelegramError as error:
                LOG.info("a surplus message could not be deleted: %s", error)

    async def document(self, name: str, text: str) -> None:
        """Send a file once; after a crash at just that moment it may be sent a second time."""
        name, text = mask(name).text, mask(text).text
        await self._line.call(
            lambda: self._line.bot.send_document(
                self._address.chat, text.encode("utf-8"), filename=name, message_thread_id=self._address.thread
            )
        )

    async def _put(self, pieces: list[Styled], *, patient: bool) -> None:
        for index, piece in enumerate(pieces):
            if index >= len(self._messages):
                await self._send_placeholder(patient=patient)
            if self._shown.get(index) == piece:
                continue
            buttons = self._buttons if index == len(pieces) - 1 else None
            await self._edit(self._messages[index], piece, buttons, patient=patient)
            self._shown[index] = piece

    async def _send_placeholder(self, *, patient: bool = True) -> None:
        message = await self._line.call(
            lambda: self._line.bot.send_message(self._address.chat, SIGN, message_thread_id=self._address.thread),
            patient=patient,
        )
        await asyncio.to_thread(self._journal.sent, self._update, message.message_id)
        if message.message_id not in self._messages:
            self._messages.append(message.message_id)

    async def _edit(self, message: int, piece: Styled, buttons: InlineKeyboardMarkup | None, *, patient: bool) -> None:
        for entities in (_entities(piece), []):
            try:
                edit = partial(
                    self._line.bot.edit_message_text,
                    piece.text,
                    self._address.chat,
                    message,
                    entities=entities,
                    reply_markup=buttons,
                    disable_web_page_preview=True,
                )
                await self._line.call(edit, patient=patient)
                return
            except _Same:
                return
            except BadRequest as error:
                if not entities:
                    raise
                LOG.warning("Telegram refused the formatting (%s): sent as plain text", error)


def _without_last_word(text: str) -> str:
    """Return a growing text without its last word, unless that is plain letters: half a key cannot be recognised."""
    start = max(text.rfind(" "), text.rfind("\n")) + 1
    last = text[start:]
    return text if len(last) < _PLAIN_WORD and last.isalpha() else text[:start]


def _entities(piece: Styled) -> list[MessageEntity]:
    """Return the entities as Telegram counts them: in UTF-16 units."""
    return [
        MessageEntity(
            type=entity.kind,
            offset=units(piece.text[: entity.start]),
            length=units(piece.text[entity.start : entity.end]),
            url=entity.url or None,
            language=entity.language or None,
        )
        for entity in piece.entities
    ]
