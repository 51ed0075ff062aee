"""A full disk: an update stays with Telegram or in the journal until it is answered, completely and once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from cortext.agents.telegram.answering import Answering
from cortext.agents.telegram.bot import TelegramBot
from cortext.agents.telegram.serving import by_polling
from cortext.errors import WriteFailed
from cortext.store.assistant import PendingUpdate
from cortext.store.files.assistant import FileUpdates
from tests.agents.alfred.conftest import Desk
from tests.agents.alfred.kit import messages_of
from tests.support.telegram_server import BOT, TOKEN, TelegramServer
from tests.support.waiting import wait_until

ME = 4711


class FullDisk(FileUpdates):
    """A journal that refuses the given number of writes of each kind."""

    def __init__(self, path: str, **refusals: int) -> None:
        super().__init__(path)
        self.refusals = refusals
        self.refused: list[str] = []

    def _refuse_if_full(self, kind: str) -> None:
        if self.refusals.get(kind, 0) > 0:
            self.refusals[kind] -= 1
            self.refused.append(kind)
            raise WriteFailed("no space left on device", kept="everything stored before")

    def take(self, arrived: Sequence[tuple[int, str, dict[str, Any]]]) -> list[PendingUpdate]:
        if arrived:
            self._refuse_if_full("take")
        return super().take(arrived)

    def sent(self, update: int, message: int) -> None:
        self._refuse_if_full("sent")
        super().sent(update, message)

    def done(self, update: int) -> None:
        self._refuse_if_full("done")
        super().done(update)


@pytest.mark.req("CHAT-13", "STORE-07")
@pytest.mark.filterwarnings("ignore:Please use")
def test_a_full_disk_delays_answers_and_loses_none(desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from telegram import Bot

    monkeypatch.setenv("PTB_TIMEDELTA", "true")
    monkeypatch.setattr(TelegramBot, "pause", lambda self, seconds: asyncio.sleep(0))
    updates = FullDisk(str(tmp_path / "journal.jsonl"), take=2, sent=2, done=2)
    updates.hold()

    async def serve(telegram: TelegramServer) -> None:
        bot = Bot(TOKEN, base_url=f"{telegram.url}/bot")
        answering = Answering(desk.assistant, desk.commands, updates, BOT)
        served = TelegramBot(
            bot, answering, updates, allowed=[ME], longest=1000, parallel=4, how_to_allow=lambda user: "no"
        )
        await served.start()
        polling = asyncio.ensure_future(by_polling(served))
        telegram.say(ME, "in spite of it")
        telegram.say(ME, "/title full")
        await asyncio.to_thread(telegram.wait_for, lambda: any("title: full" in text for text in telegram.said(ME)))
        await asyncio.to_thread(wait_until, lambda: not updates.waiting())
        served.stopping.set()
        await polling
        await served.stop()
        await bot.shutdown()

    with TelegramServer() as telegram:
        asyncio.run(serve(telegram))
        assert updates.refused == ["take"] * 2 + ["sent"] * 2 + ["done"] * 2
        assert sum("Answer to in spite of it" in text for text in telegram.said(ME)) == 1
        assert sum("title: full" in text for text in telegram.said(ME)) == 1
    assert [line["content"] for line in messages_of(desk.home, "tg_4711")] == [
        "in spite of it",
        "Answer to in spite of it",
    ]
