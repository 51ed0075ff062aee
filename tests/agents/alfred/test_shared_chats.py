"""A process that shares a bot's chats with others: what it sends ends with its claim on the chat."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from cortext.agents.telegram.sending import Line
from cortext.agents.telegram.shared import ChatClaims, OwnLine
from cortext.errors import TakenOver


class Claimed:
    """Updates whose only chat is claimed for so many seconds; so many renewals succeed, the others get no answer."""

    def __init__(self, seconds: float, renewable: int) -> None:
        self.seconds, self._renewable, self.renewals = seconds, renewable, 0
        self.on_renewal: Callable[[int], None] = lambda number: None

    def claim(self, chat: str) -> bool:
        return True

    def renew(self, chat: str) -> bool:
        if self.renewals >= self._renewable:
            raise TakenOver("no answer from the server")
        self.renewals += 1
        self.on_renewal(self.renewals)
        return True

    def waiting(self, chat: str) -> list[Any]:
        return []

    def release_chat(self, chat: str) -> None:
        """Nothing is held elsewhere."""


async def _call(updates: Claimed, ask: Callable[[], Awaitable[str]]) -> str:
    claims = ChatClaims(updates)  # type: ignore[arg-type]
    assert claims.take("tg_1")
    try:
        return await OwnLine(Line(None), lambda: claims.check("tg_1")).call(ask)  # type: ignore[arg-type]
    finally:
        claims.close()


@pytest.mark.req("CHAT-13", "STORE-05")
def test_a_call_to_telegram_ends_with_the_claim_on_its_chat() -> None:
    """It used to go on for up to a minute, and could replace what the next holder of the chat had sent."""
    ended: list[str] = []

    async def hangs() -> str:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")
        return "sent too late"

    async def run() -> None:
        with pytest.raises(TakenOver):
            await _call(Claimed(0.2, renewable=0), hangs)
        await asyncio.sleep(0)  # the cancelled call gets its turn

    asyncio.run(run())
    assert ended == ["cancelled"]


@pytest.mark.req("CHAT-13")
def test_a_slow_call_to_telegram_succeeds_while_the_claim_is_renewed() -> None:
    """The fifth renewal comes after the end that the claim had when the call began: there are four in that time."""
    updates = Claimed(2.0, renewable=100)

    async def run() -> str:
        loop, enough = asyncio.get_running_loop(), asyncio.Event()

        def count(number: int) -> None:
            if number == 5:
                loop.call_soon_threadsafe(enough.set)

        updates.on_renewal = count

        async def slow() -> str:
            await enough.wait()
            return "sent"

        return await _call(updates, slow)

    assert asyncio.run(run()) == "sent"
    assert updates.renewals >= 5
