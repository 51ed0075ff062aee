"""Several `alfred telegram --webhook` behind one address, killed at random; then every message is accounted for.

The front acts as a reverse proxy: a call goes to the next process that accepts the connection. The simulated Telegram
repeats a call that is not answered with 200.
"""

from __future__ import annotations

import random
import socket
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self

from cortext.model.message import ASSISTANT, USER
from cortext.server.store import PostgresStore
from tests.agents.alfred.kit import Bot, Parrot, environment
from tests.support.postgres import Postgres
from tests.support.telegram_server import BOT, TelegramServer
from tests.support.waiting import wait_until


class Front:
    """One address in front of many processes; each gets connections in turn."""

    def __init__(self, ports: list[int]) -> None:
        self._ports, self._turn = ports, 0
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/hook"
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(5)

    def _accept(self) -> None:
        while True:
            try:
                call, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._forward, args=(call,), daemon=True).start()

    def _forward(self, call: socket.socket) -> None:
        with call:
            for _ in self._ports:
                self._turn += 1
                try:
                    target = socket.create_connection(("127.0.0.1", self._ports[self._turn % len(self._ports)]), 5)
                except OSError:
                    continue
                with target:
                    back = threading.Thread(target=_copy, args=(target, call), daemon=True)
                    back.start()
                    _copy(call, target)
                    back.join(15)
                return


def _copy(source: socket.socket, target: socket.socket) -> None:
    try:
        while data := source.recv(65_536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        for end in (source, target):  # one side is gone: the other must not wait for it
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class Crew:
    """Bot processes, each with its own HOME, as if on separate hosts."""

    def __init__(
        self, folder: Path, address: str, model: Parrot, telegram: TelegramServer, workers: int, lease: float = 2.0
    ) -> None:
        self.ports = [_free_port() for _ in range(workers)]
        self.front = Front(self.ports)
        self._telegram = telegram
        self.bots = []
        for number, port in enumerate(self.ports):
            home = folder / f"host{number}"
            home.mkdir()
            env = {
                **environment(home, model, telegram),
                "CORTEXT_STORE": address,
                "CORTEXT_STORE_LEASE_SECONDS": f"{lease:g}",
            }
            arguments = ("--webhook", self.front.url, "--listen", f"127.0.0.1:{port}", "--no-worker")
            self.bots.append(Bot(env, telegram, *arguments, allowed=",".join(map(str, range(5000, 5100)))))

    def __enter__(self) -> Self:
        for bot in self.bots:
            bot.start(wait=False)
        self._telegram.wait_for(lambda: self._telegram.count("setWebhook") >= len(self.bots) or self._dead(), 60)
        assert not self._dead(), self.logged()
        return self

    def __exit__(self, *error: object) -> None:
        for bot in self.bots:
            if bot.process is not None and bot.process.poll() is None:
                bot.kill()
        self.front.close()

    def _dead(self) -> bool:
        return any(bot.process is not None and bot.process.poll() is not None for bot in self.bots)

    def logged(self) -> str:
        """Return the logs of all bots."""
        return "\n".join(bot.logged() for bot in self.bots)


def serve(
    server: Postgres,
    folder: Path,
    *,
    workers: int,
    chats: int,
    messages: int,
    kills: int,
    seed: int,
    crashes: int = 0,
    lease: float = 2.0,
) -> Counter[str]:
    """Send messages in many chats at once while processes are killed; AssertionError if one is lost or duplicated.

    The database server crashes `crashes` times too, each time right after a process was killed. Return what happened.
    """
    address = server.database()
    chance = random.Random(seed)
    asked = {chat: [f"question {number} of {chat}" for number in range(messages)] for chat in range(5000, 5000 + chats)}
    counts: Counter[str] = Counter()
    with TelegramServer() as telegram, Parrot() as model:
        model.slow = 0.1
        with Crew(folder, address, model, telegram, workers, lease) as crew, ThreadPoolExecutor(chats) as executor:
            senders = [executor.submit(_send_all, telegram, chat, texts, seed, counts) for chat, texts in asked.items()]
            total = chats * messages
            for number in range(kills):
                # Spread the kills over the run: each waits until its share of the questions has reached the model.
                share = total * number // kills + 1
                telegram.wait_for(lambda least=share: len(model.turns) >= least, 300)  # type: ignore[misc]
                victim = crew.bots[chance.randrange(workers)]
                victim.kill()
                counts["kills"] += 1
                if number < crashes:
                    server.kill()
                    server.start()
                    counts["crashes of the server"] += 1
                victim.start(wait=False)
            for future in senders:
                future.result(300)
            try:
                telegram.wait_for(lambda: all(len(_answers(telegram, chat)) >= messages for chat in asked), 120)
            except AssertionError as error:
                error.add_note(f"seed {seed}")
                for chat in (chat for chat in asked if len(_answers(telegram, chat)) < messages):
                    logged = [line for line in crew.logged().splitlines() if f"tg_{chat}" in line]
                    error.add_note(f"chat {chat} shows {telegram.said(chat)}; the log of the bots: {logged}")
                raise
            store = PostgresStore(address, "chat")
            try:
                telegram.wait_for(lambda: not store.updates(BOT).waiting(), 60)
                for chat, texts in asked.items():
                    _check(store, telegram, chat, texts)
            finally:
                store.close()
        counts["asked again"] = len(model.turns) - total
        counts["taken over from live processes"] = crew.logged().count("is left to another process")
        counts["placeholders left"] = sum(sent.text == "…" for chat in asked for sent in telegram.sent(chat))
        assert counts["placeholders left"] <= counts["kills"] * chats + counts["taken over from live processes"]
        before, traceback, after = crew.logged().partition("Traceback")
        assert not traceback, before[-600:] + traceback + after[:4000]
    return counts


def _send_all(telegram: TelegramServer, chat: int, texts: list[str], seed: int, counts: Counter[str]) -> None:
    """Play one person, who sends the next message once the previous one was accepted."""
    chance = random.Random(seed + chat)
    for text in texts:
        update = telegram.next_update(chat, text)
        attempts = 0

        def is_accepted(update: dict[str, Any] = update) -> bool:
            nonlocal attempts
            attempts += 1
            return telegram.deliver(update) == 200

        wait_until(is_accepted, 120, "a process accepts the update")  # Telegram also waits before it retries
        counts["deliveries that failed"] += attempts - 1
        if chance.random() < 0.2:
            repeated = telegram.deliver(update)
            counts["delivered twice"] += repeated == 200


def _check(store: PostgresStore, telegram: TelegramServer, chat: int, texts: list[str]) -> None:
    messages = [message for message in store.read(f"tg_{chat}") if not message.partial]
    expected: list[Any] = []
    for text in texts:
        expected += [(USER, text), (ASSISTANT, f"Answer to {text}")]
    assert [(message.role, message.text) for message in messages] == expected, f"chat {chat}: the log"
    assert _answers(telegram, chat) == [f"Answer to {text}" for text in texts], f"chat {chat}: what the user sees"
    assert len(telegram.said(chat)) == len(texts), f"chat {chat}: what else the user sees"
    assert store.check(f"tg_{chat}") == []


def _answers(telegram: TelegramServer, chat: int) -> list[str]:
    """Return the complete answers that the user sees, without the notice that a session was created."""
    shown = [text.partition("\n\nCreated session")[0] for text in telegram.said(chat)]
    return [text for text in shown if text.endswith(f"of {chat}")]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
