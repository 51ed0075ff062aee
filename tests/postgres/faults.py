"""Accidents on the way to a server, and what must hold after them. The tests run them short, `long.py` long.

Whatever happens: every acknowledged message is there once, under the id and number that were told, each writer's in its
order, none invented, and the counts are those of the rows.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence

from cortext.errors import StoreUnreachable
from cortext.model.message import Message
from cortext.model.session import Change, Session
from cortext.store.postgres.store import PostgresStore
from tests.store.crash.talk import message_of, name_of
from tests.support.postgres import Postgres, new_space

SESSIONS = ("talk-a", "talk-b")


class Scribe(threading.Thread):
    """Writes messages one after another, each until it is acknowledged; what it was told is in `told`."""

    def __init__(self, name: str, store: PostgresStore, session: str, *, held: bool) -> None:
        super().__init__(name=name, daemon=True)
        self.store, self.session, self.held = store, session, held
        self.told: list[tuple[str, str, int]] = []
        self.again = 0  # how often it was refused, and tried the same once more
        self.failure: BaseException | None = None
        self.ended = threading.Event()

    def run(self) -> None:
        try:
            number = 0
            while not self.ended.is_set():
                batch = 1 + number % 3
                self._write([f"{self.name}-{number + place}" for place in range(batch)])
                number += batch
                if self.held:
                    self.ended.wait(0.01)  # whoever holds a session all the time leaves no room for others
        except BaseException as error:
            self.failure = error

    def _write(self, names: Sequence[str]) -> None:
        messages = [message_of(name, 80, id=f"id-{name}") for name in names]
        while True:
            try:
                stored = self._append(messages)
                break
            except StoreUnreachable:
                self.again += 1
        self.told += [(name, message.id, message.seq) for name, message in zip(names, stored, strict=True)]

    def _append(self, messages: list[Message]) -> list[Message]:
        if not self.held:
            return self.store.append(self.session, *messages)
        with self.store.open(self.session, timeout=60) as writer:
            stored = writer.append(*messages)
            writer.update(Change(title=f"by {self.name}"))
            return stored


def accidents(
    server: Postgres, url: str, happen: Callable[[], None], times: int, *, writers: int = 4, pause: float = 0.05
) -> list[Scribe]:
    """Let scribes write while something happens so many times; then hold what is there against what they were told."""
    space = new_space()
    watcher = PostgresStore(server.url, space)
    for name in SESSIONS:
        watcher.create(Session(id=name))
    stores = [PostgresStore(url, space, lock_timeout=60, lease=5, patience=60) for _ in range(writers)]
    scribes = [
        Scribe(f"w{number}", store, SESSIONS[number % len(SESSIONS)], held=number >= writers // 2)
        for number, store in enumerate(stores)
    ]
    for scribe in scribes:
        scribe.start()
    chance = random.Random(8)
    for _ in range(times):
        time.sleep(chance.uniform(0, 2 * pause))  # at a random moment: any is a good one
        happen()
    before = [len(scribe.told) for scribe in scribes]
    deadline = time.monotonic() + 120
    while any(len(scribe.told) <= count for scribe, count in zip(scribes, before, strict=True)):
        assert time.monotonic() < deadline and all(scribe.is_alive() for scribe in scribes), _why(scribes)
        time.sleep(0.01)  # each has to get through once more after the last accident
    for scribe in scribes:
        scribe.ended.set()
    for scribe in scribes:
        scribe.join(60)
        assert not scribe.is_alive() and scribe.failure is None, _why(scribes)
    for name in SESSIONS:
        check(watcher, name, [scribe for scribe in scribes if scribe.session == name])
    for store in (watcher, *stores):
        store.close()
    return scribes


def _why(scribes: Sequence[Scribe]) -> str:
    return "; ".join(f"{scribe.name}: {len(scribe.told)} told, {scribe.failure!r}" for scribe in scribes)


def check(store: PostgresStore, session_id: str, scribes: Sequence[Scribe]) -> None:
    """The log of a session against what its writers were told."""
    there = list(store.read(session_id))
    names = [name_of(message) for message in there]
    assert [message.seq for message in there] == list(range(len(there))), "numbers with gaps or doubles"
    assert len(set(names)) == len(names), "a message is there twice"
    places = {name: (message.id, message.seq) for name, message in zip(names, there, strict=True)}
    for scribe in scribes:
        assert scribe.told, f"{scribe.name} got nothing through"
        for name, message_id, seq in scribe.told:
            assert places.get(name) == (message_id, seq), f"{name} was told {seq}, and is {places.get(name)}"
        own = [name for name in names if name.startswith(f"{scribe.name}-")]
        assert own == [name for name, _, _ in scribe.told], f"{scribe.name}: not in order, or not all acknowledged"
    assert len(there) == sum(len(scribe.told) for scribe in scribes), "something was invented"
    assert store.get(session_id).message_count == len(there)
    assert store.check(session_id) == []
