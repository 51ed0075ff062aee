"""Many workers of one bot, killed at random: every update is answered once, in the order of its chat."""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable, Sized
from functools import partial

from cortext.model.session import Session
from cortext.server.store import PostgresStore
from tests.support.postgres import Postgres, new_space
from tests.support.waiting import wait_until


class Crew:
    """Worker processes; one that has finished or was killed is replaced while there is work."""

    def __init__(self, command: list[str], workers: int) -> None:
        self._command = command
        self._running = [subprocess.Popen(command) for _ in range(workers)]

    def replace(self) -> None:
        """Start a new worker for each that ended successfully."""
        for index, process in enumerate(self._running):
            assert process.poll() in (None, 0), f"worker {index} ended with {process.returncode}"
            if process.returncode == 0:
                self._running[index] = subprocess.Popen(self._command)

    def kill(self, index: int) -> None:
        self._running[index].kill()
        self._running[index].wait(10)
        self._running[index] = subprocess.Popen(self._command)

    def are_fewer(self, waiting: Callable[[], Sized], count: int) -> bool:
        """Whether fewer updates than these are waiting; replace the workers that have ended."""
        self.replace()
        return len(waiting()) < count

    def end(self) -> None:
        for process in self._running:
            process.kill()
            process.wait(10)


def serve(server: Postgres, *, workers: int, chats: int, messages: int, kills: int) -> None:
    """Accept updates, let workers answer them, kill some workers meanwhile, and check the result."""
    space = new_space()
    bot = random.Random(space).randrange(2**40)
    store = PostgresStore(server.url, space)
    updates = store.updates(bot)
    names = [f"tg-{number}" for number in range(chats)]
    for name in names:
        store.create(Session(id=name))
    arrived = [(number, names[number % chats], {"text": f"message {number}"}) for number in range(chats * messages)]
    share = -(-len(arrived) // kills)
    crew = Crew([sys.executable, "-m", "tests.server.worker", server.url, space, str(bot)], workers)
    chance = random.Random(4)
    try:
        for begin in range(0, len(arrived), share):
            batch = arrived[begin : begin + share]
            waiting = len(updates.waiting())
            assert len(updates.take(batch)) == len(batch) and updates.take(batch[:3]) == []
            wait_until(partial(crew.are_fewer, updates.waiting, waiting + len(batch)), 600, "an update is answered")
            crew.kill(chance.randrange(workers))  # at least one worker is answering now
        wait_until(partial(crew.are_fewer, updates.waiting, 1), 600, "every update is answered")
    finally:
        crew.end()
    for index, name in enumerate(names):
        numbers = range(index, chats * messages, chats)
        expected = [f"{side}-{number}" for number in numbers for side in ("u", "a")]
        assert [message.id for message in store.read(name)] == expected, name
        assert store.check(name) == []
    store.close()
