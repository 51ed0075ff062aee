"""Many chats at once, and kills at random moments: no message is misplaced, lost or duplicated."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.agents.alfred.kit import Bot, Parrot, environment, messages_of
from tests.agents.alfred.storm import Storm
from tests.support.telegram_server import TelegramServer


@pytest.mark.req("CHAT-06", "CHAT-13")
def test_twelve_chats_at_once_stay_separate_and_in_order(home: Path) -> None:
    crowd(home, chats=12, messages=6)


@pytest.mark.req("CHAT-05", "CHAT-13", "STORE-03")
def test_kills_at_random_moments_lose_and_duplicate_nothing(home: Path) -> None:
    found = Storm(home, seed=3).run(8)
    assert found["messages"] > 20


def crowd(home: Path, chats: int, messages: int) -> None:
    """Serve many chats at once; each must contain its own messages in order, and no others.

    50 chats of 20 messages: python -c "import tempfile, pathlib; from tests.agents.alfred.test_crowd import crowd;
    crowd(pathlib.Path(tempfile.mkdtemp()), 50, 20)"
    """
    numbers = [5000 + number for number in range(chats)]
    wanted = {chat: [f"message {index} of chat {chat}" for index in range(messages)] for chat in numbers}
    order = [(chat, index) for chat in numbers for index in range(messages)]
    random.Random(5).shuffle(order)
    order.sort(key=lambda item: item[1] + random.Random(item[0]).random())  # shuffled, but in order for each chat
    with TelegramServer() as telegram, Parrot() as model:
        with Bot(environment(home, model, telegram), telegram, allowed=",".join(map(str, numbers))):
            for chat, index in order:
                telegram.say(chat, wanted[chat][index])
            last = f"Answer to message {messages - 1}"
            telegram.wait_for(
                lambda: all(telegram.said(chat)[-1:] and last in telegram.said(chat)[-1] for chat in numbers), 300
            )
            telegram.wait_for(lambda: all(_shown(telegram, chat) == _answers(wanted[chat]) for chat in numbers), 60)
        for chat in numbers:
            expected = [text for question in wanted[chat] for text in (question, f"Answer to {question}")]
            assert [line["content"] for line in messages_of(home, f"tg_{chat}")] == expected
        # Each request to the model has the messages of one chat only.
        for request in model.turns:
            owners = {text.rsplit(" ", 1)[1] for text in request.texts("user")}
            assert len(owners) == 1


def _answers(questions: list[str]) -> list[str]:
    return [f"Answer to {text}" for text in questions]


def _shown(telegram: TelegramServer, chat: int) -> list[str]:
    return [text.partition("\n\nCreated session")[0] for text in telegram.said(chat)]
