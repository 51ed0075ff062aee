"""The assistant with its sessions on a PostgreSQL server, chosen by one setting."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from tests.agents.alfred.conftest import Desk
from tests.agents.alfred.kit import Bot, Parrot, environment, sessions_of
from tests.support.postgres import PASSWORD, shared
from tests.support.telegram_server import TelegramServer


@pytest.mark.req("CHAT-08", "CHAT-13", "STORE-14")
def test_terminal_bot_and_worker_share_a_server(
    home: Path, desk: Desk, model: Parrot, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = shared().database()
    monkeypatch.setenv("CORTEXT_STORE", address)
    served = Desk(home)
    assert served.say("we met on the server") == "Answer to we met on the server"
    session = served.assistant.sessions.active("cli")
    served.do("/remember I like trains")
    with TelegramServer() as telegram:
        env = {**environment(home, model, telegram), "CORTEXT_STORE": address, "CORTEXT_TELEGRAM_DESK_CHATS": "4711"}
        bot = Bot(env, telegram)
        with bot:
            telegram.say(4711, f"/resume {session}")
            telegram.wait_for(lambda: telegram.said(4711) == [f"Resumed session {session} (2 messages)"])
            telegram.say(4711, "and on the phone")
            telegram.wait_for(lambda: telegram.said(4711)[-1] == "Answer to and on the phone")
        with bot:
            telegram.say(4711, "after a restart")
            telegram.wait_for(lambda: telegram.said(4711)[-1] == "Answer to after a restart")
        assert len(telegram.said(4711)) == 3
        assert PASSWORD not in bot.logged()
    asked = model.turns[-1]
    assert asked.texts("user") == ["we met on the server", "and on the phone", "after a restart"]
    assert "I like trains" in str(asked.body["messages"][0])
    # Two workers, as on two hosts, make one summary.
    later = time.time() + 3600
    workers = [served.worker(), Desk(home).worker()]
    for worker in workers * 3:
        assert worker.run(later).failed == {}
    assert len(model.summaries()) == 1
    [last] = served.assistant.store.tail(session, 1)
    assert served.assistant.store.peek(session).summary_covers == last.seq + 1 >= 6
    assert not sessions_of(home).joinpath(session).exists()
