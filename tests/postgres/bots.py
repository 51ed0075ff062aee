"""Many workers of one bot, killed at random: every update answered once, in the order of its chat."""

from __future__ import annotations

import random
import subprocess
import sys
import time

from cortext.model.session import Session
from cortext.store.postgres.store import PostgresStore
from tests.support.postgres import Postgres, new_space


class Crew:
    """Workers; one that is through with its work, or was killed, is replaced by a new one while there is work."""

    def __init__(self, words: list[str], workers: int) -> None:
        self._words = words
        self._running = [subprocess.Popen(words) for _ in range(workers)]

    def replace(self) -> None:
        """Put new ones in place of those that ended well."""
        for place, process in enumerate(self._running):
            assert process.poll() in (None, 0), f"worker {place} ended with {process.returncode}"
            if process.returncode == 0:
                self._running[place] = subprocess.Popen(self._words)

    def kill(self, place: int) -> None:
        self._running[place].kill()
        self._running[place].wait(10)
        self._running[place] = subprocess.Popen(self._words)

    def end(self) -> None:
        for process in self._running:
            process.kill()
            process.wait(10)


def serve(server: Postgres, *, workers: int, chats: int, messages: int, kills: int) -> None:
    """Take the updates in, let workers answer them, kill some of these on the way, and look at the result."""
    space = new_space()
    bot = random.Random(space).randrange(2**40)
    store = PostgresStore(server.url, space)
    updates = store.updates(bot)
    names = [f"tg-{number}" for number in range(chats)]
    for name in names:
        store.create(Session(id=name))
    arrived = [(number, names[number % chats], {"text": f"message {number}"}) for number in range(chats * messages)]
    share = -(-len(arrived) // kills)
    crew = Crew([sys.executable, "-m", "tests.postgres.worker", server.url, space, str(bot)], workers)
    chance = random.Random(4)
    try:
        for begin in range(0, len(arrived), share):
            lot = arrived[begin : begin + share]
            waiting = len(updates.waiting())
            assert len(updates.take(lot)) == len(lot) and updates.take(lot[:3]) == []
            while len(updates.waiting()) >= waiting + len(lot):
                crew.replace()
                time.sleep(0.01)
            crew.kill(chance.randrange(workers))  # somebody is answering now
        while updates.waiting():
            crew.replace()
            time.sleep(0.01)
    finally:
        crew.end()
    for place, name in enumerate(names):
        numbers = range(place, chats * messages, chats)
        meant = [f"{side}-{number}" for number in numbers for side in ("u", "a")]
        assert [message.id for message in store.read(name)] == meant, name
        assert store.check(name) == []
    store.close()
