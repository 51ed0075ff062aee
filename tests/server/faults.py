"""Faults between writers and a server, and what must hold after them. Tests run them briefly, `long.py` for longer.

After any fault, every acknowledged message is stored once, under the id and number that were returned, in the order of
its writer; nothing else is stored; and the session's counts match its rows.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence

from cortext.errors import StoreUnreachable
from cortext.model.message import Message
from cortext.model.session import Change, Session
from cortext.server.connection import Limits
from cortext.server.store import PostgresStore
from tests.store.crash.actor import checked_name, make_message
from tests.support.postgres import Postgres, new_space
from tests.support.waiting import strike_after, wait_until

SESSIONS = ("talk-a", "talk-b")


class WriterThread(threading.Thread):
    """Writes messages one after another, retrying each until it is acknowledged, and records what was acknowledged."""

    def __init__(self, name: str, store: PostgresStore, session: str, *, held: bool) -> None:
        super().__init__(name=name, daemon=True)
        self.store, self.session, self.held = store, session, held
        self.acknowledged: list[tuple[str, str, int]] = []
        self.retries = 0
        self.failure: BaseException | None = None
        self.stopping = threading.Event()

    def run(self) -> None:
        try:
            number = 0
            while not self.stopping.is_set():
                batch = 1 + number % 3
                self._write([f"{self.name}-{number + offset}" for offset in range(batch)])
                number += batch
                if self.held:
                    self.stopping.wait(0.01)  # leave time for other writers to take the session
        except BaseException as error:
            self.failure = error

    def _write(self, names: Sequence[str]) -> None:
        messages = [make_message(name, 80, id=f"id-{name}") for name in names]
        while True:
            try:
                stored = self._append(messages)
                break
            except StoreUnreachable:
                self.retries += 1
        self.acknowledged += [(name, message.id, message.seq) for name, message in zip(names, stored, strict=True)]

    def _append(self, messages: list[Message]) -> list[Message]:
        if not self.held:
            return self.store.append(self.session, *messages)
        with self.store.open(self.session, timeout=60) as session:
            stored = session.append(*messages)
            session.update(Change(title=f"by {self.name}"))
            return stored


def run_with_faults(
    server: Postgres | str, url: str, fault: Callable[[], None], times: int, *, writer_count: int = 4,
    pause: float = 0.05,
) -> list[WriterThread]:  # fmt: skip
    """Run writers while `fault` happens `times` times; then compare the log with what was acknowledged.

    `server` is where the result is read (its address, if it is none of ours), `url` what the writers use.
    """
    space = new_space()
    watcher = PostgresStore(server if isinstance(server, str) else server.url, space, limits=Limits(patience=60))
    for name in SESSIONS:
        watcher.create(Session(id=name))
    stores = [
        PostgresStore(url, space, lock_timeout=60, lease=5, limits=Limits(patience=60)) for _ in range(writer_count)
    ]
    writers = [
        WriterThread(f"w{number}", store, SESSIONS[number % len(SESSIONS)], held=number >= writer_count // 2)
        for number, store in enumerate(stores)
    ]
    for writer in writers:
        writer.start()
    chance = random.Random(8)
    for _ in range(times):
        strike_after(chance.uniform(0, 2 * pause))
        fault()
    before = [len(writer.acknowledged) for writer in writers]

    def has_each_succeeded() -> bool:
        """Whether every writer has succeeded once more after the last fault."""
        assert all(writer.is_alive() for writer in writers), _status(writers)
        return all(len(writer.acknowledged) > count for writer, count in zip(writers, before, strict=True))

    wait_until(has_each_succeeded, 120, lambda: _status(writers))
    for writer in writers:
        writer.stopping.set()
    for writer in writers:
        writer.join(60)
        assert not writer.is_alive() and writer.failure is None, _status(writers)
    for name in SESSIONS:
        check(watcher, name, [writer for writer in writers if writer.session == name])
    for store in (watcher, *stores):
        store.close()
    return writers


def _status(writers: Sequence[WriterThread]) -> str:
    return "; ".join(
        f"{writer.name}: {len(writer.acknowledged)} acknowledged, {writer.failure!r}" for writer in writers
    )


def check(store: PostgresStore, session_id: str, writers: Sequence[WriterThread]) -> None:
    """Compare the log of a session with what its writers got acknowledged."""
    messages = list(store.read(session_id))
    names = [checked_name(message) for message in messages]
    assert [message.seq for message in messages] == list(range(len(messages))), "numbers have gaps or duplicates"
    assert len(set(names)) == len(names), "a message is stored twice"
    stored_as = {name: (message.id, message.seq) for name, message in zip(names, messages, strict=True)}
    for writer in writers:
        assert writer.acknowledged, f"nothing of {writer.name} was acknowledged"
        for name, message_id, seq in writer.acknowledged:
            assert stored_as.get(name) == (message_id, seq), (
                f"{name} was acknowledged as {seq}, but is stored as {stored_as.get(name)}"
            )
        written = [name for name in names if name.startswith(f"{writer.name}-")]
        assert written == [name for name, _, _ in writer.acknowledged], (
            f"{writer.name}: out of order, or stored without an acknowledgement"
        )
    assert len(messages) == sum(len(writer.acknowledged) for writer in writers), (
        "the log contains messages that nobody wrote"
    )
    assert store.get(session_id).message_count == len(messages)
    assert store.check(session_id) == []
