"""Many processes serve one bot with its sessions on a server: each update is answered once and in order."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from cortext.server.store import PostgresStore
from tests.agents.alfred.kit import Parrot
from tests.server.webhooks import Crew, serve
from tests.support.model_reply import Reply
from tests.support.postgres import shared
from tests.support.telegram_server import TelegramServer

ME = 5000


@pytest.mark.req("CHAT-13", "STORE-03", "STORE-14")
def test_many_processes_answer_every_update_once_and_in_order(tmp_path: Path) -> None:
    counts = serve(shared(), tmp_path, workers=3, chats=8, messages=4, kills=4, seed=8)
    assert counts["kills"] == 4


@pytest.mark.req("CHAT-13", "STORE-05", "STORE-14")
def test_a_bot_suspended_past_its_claim_writes_and_sends_nothing_afterwards(tmp_path: Path) -> None:
    address = shared().database()
    continue_reply = threading.Event()
    with TelegramServer() as telegram, Parrot() as model:
        model.push(Reply(text="Never to be seen whole", hold=continue_reply, hold_at=2))
        with Crew(tmp_path, address, model, telegram, 2, lease=1.0) as crew:
            assert telegram.deliver(telegram.next_update(ME, "who answers?")) == 200
            model.wait_for_hold()
            telegram.wait_for(lambda: telegram.said(ME))
            suspended = next(bot for bot in crew.bots if bot.process and _is_connected_to(bot.process.pid, model.port))
            assert suspended.process is not None
            os.kill(suspended.process.pid, signal.SIGSTOP)
            # The suspended process still accepts connections without answering, so Telegram has to call the other one.
            awake = crew.ports[1 - crew.bots.index(suspended)]
            telegram.webhook = {**telegram.webhook, "url": f"http://127.0.0.1:{awake}/hook"}
            # The other process continues in the same message of the chat.
            telegram.wait_for(lambda: telegram.said(ME)[-1].startswith("Answer to who answers?"))
            assert telegram.deliver(telegram.next_update(ME, "and now?")) == 200
            telegram.wait_for(lambda: telegram.said(ME)[-1] == "Answer to and now?")
            continue_reply.set()
            os.kill(suspended.process.pid, signal.SIGCONT)
            suspended.wait_for_log("is left to another process")
            assert telegram.deliver(telegram.next_update(ME, "all well?")) == 200
            telegram.wait_for(lambda: telegram.said(ME)[-1] == "Answer to all well?")
            store = PostgresStore(address, "chat")
            stored = [message.text for message in store.read(f"tg_{ME}")]
            store.close()
        assert stored == [
            text for asked in ("who answers?", "and now?", "all well?") for text in (asked, f"Answer to {asked}")
        ]
        assert len(telegram.said(ME)) == 3
        assert "Never" not in "".join(telegram.said(ME))


def _is_connected_to(process: int, port: int) -> bool:
    """Whether a process has a connection to this loopback port."""
    remote_port = f":{port:04X}"
    sockets = {
        fields[9]
        for line in Path(f"/proc/{process}/net/tcp").read_text(encoding="ascii").splitlines()[1:]
        if (fields := line.split())[2].endswith(remote_port) and fields[3] == "01"
    }
    for name in Path(f"/proc/{process}/fd").iterdir():
        try:
            target = os.readlink(name)
        except OSError:
            continue
        if target.startswith("socket:[") and target[8:-1] in sockets:
            return True
    return False


@pytest.mark.req("CHAT-13", "STORE-14")
def test_a_stop_received_by_another_process_ends_the_answer(tmp_path: Path) -> None:
    with TelegramServer() as telegram, Parrot() as model:
        model.push(Reply(text="A long story that nobody wants", hold=threading.Event(), hold_at=2))
        with Crew(tmp_path, shared().database(), model, telegram, 2, lease=2.0) as crew:
            assert telegram.deliver(telegram.next_update(ME, "tell me")) == 200
            model.wait_for_hold(60)  # starting two processes takes a while on a busy machine
            writer = next(bot for bot in crew.bots if bot.process and _is_connected_to(bot.process.pid, model.port))
            other = crew.ports[1 - crew.bots.index(writer)]
            telegram.webhook = {**telegram.webhook, "url": f"http://127.0.0.1:{other}/hook"}
            assert telegram.deliver(telegram.next_update(ME, "/stop")) == 200
            telegram.wait_for(lambda: telegram.said(ME)[-1:] == ["Nothing is being written now."])
            assert "(stopped)" in telegram.said(ME)[0]
            assert "nobody wants" not in telegram.said(ME)[0]
