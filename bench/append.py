"""Durable append compared with a bare `write + fsync` of the same bytes and with openai-agents' SQLiteSession.

python -m bench.append [--rounds 200] [--batch 10] [--grow 100000] [--peer 1]
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import TypeVar

from bench.common import Worker, arguments, in_turns, peers, print_table, ratios, role_of, spread, texts, work_folder
from cortext.model import ids
from cortext.model.message import Message
from cortext.model.session import Session
from cortext.store.base import Writer
from cortext.store.files.chat import ChatStore
from cortext.store.files.spawn import SpawnStore
from cortext.store.files.store import FileStore
from cortext.store.files.workspace import WorkspaceStore

LAYOUTS: dict[str, type[FileStore]] = {"workspace": WorkspaceStore, "spawn": SpawnStore, "chat": ChatStore}
HELD, CLOSED, BARE, PEER = "held open", "opened each time", "bare write + fsync", "openai-agents SQLiteSession"
TARGETS = {HELD: 0.9, CLOSED: 0.7}
EARLY = 10  # messages in the short session that a long one is compared with
Item = TypeVar("Item")
now = time.perf_counter


class Bare:
    """The lower bound: an open file and exactly the lines that the store wrote."""

    def __init__(self, path: str, lines: list[bytes], batch: int) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._lines, self._batch = lines, batch

    def __call__(self, number: int) -> float:
        lines = _slice(self._lines, number, self._batch)
        descriptor = self._descriptor
        start = now()
        for line in lines:
            os.write(descriptor, line)
            os.fsync(descriptor)
        return now() - start


def held(writer: Writer, messages: list[Message], batch: int, number: int) -> float:
    """Append one message at a time to a session that stays open."""
    part = _slice(messages, number, batch)
    start = now()
    for message in part:
        writer.append(message)
    return now() - start


def closed(store: FileStore, session_id: str, messages: list[Message], batch: int, number: int) -> float:
    """Append one message at a time; each append opens, locks, writes and closes the session."""
    part = _slice(messages, number, batch)
    start = now()
    for message in part:
        store.append(session_id, message)
    return now() - start


def fresh(make: Callable[[], FileStore], session_id: str, messages: list[Message], batch: int, number: int) -> float:
    """Append each message with a store object that has never seen the session, as a command does."""
    part = _slice(messages, number, batch)
    seconds = 0.0
    for message in part:
        store = make()
        start = now()
        store.append(session_id, message)
        seconds += now() - start
    return seconds


def _slice(items: list[Item], number: int, batch: int) -> list[Item]:
    first = number * batch % (len(items) - batch + 1)
    return items[first : first + batch]


def lines_of(folder: str, messages: list[Message]) -> list[bytes]:
    """Return the lines that a store writes for these messages."""
    store = WorkspaceStore(os.path.join(folder, "lines"))
    path = store.create(Session(id="lines")).path
    store.append("lines", *messages)
    with open(os.path.join(path, ".session", "messages.jsonl"), "rb") as file:
        return file.read().splitlines(keepends=True)


def rates(folder: str, messages: list[Message], rounds: int, batch: int, peer: bool) -> None:
    """Measure both modes for all layouts and the peer, interleaved."""
    contenders: dict[str, Callable[[int], float]] = {}
    with ExitStack() as stack:
        contenders[BARE] = Bare(os.path.join(folder, "bare.jsonl"), lines_of(folder, messages), batch)
        for layout, kind in LAYOUTS.items():
            store = kind(os.path.join(folder, layout))
            store.create(Session(id="held"))
            store.create(Session(id="closed"))
            writer = stack.enter_context(store.open("held"))
            contenders[f"{layout}, {HELD}"] = partial(held, writer, messages, batch)
            contenders[f"{layout}, {CLOSED}"] = partial(closed, store, "closed", messages, batch)
        if peer:
            items = [{"role": message.role, "content": message.content} for message in messages]
            worker = Worker(peers(), "peer_append.py", os.path.join(folder, "peer.db"))
            stack.callback(worker.close)
            worker.ask(items=items)
            for mode in (HELD, CLOSED):
                contenders[f"{PEER}, {mode}"] = partial(_ask, worker, mode, len(messages), batch)
        for contend in contenders.values():
            contend(0)  # warm up: imports, first files, the database's tables
        seconds = in_turns(contenders, rounds)
    size = sum(len(message.content.encode()) for message in messages) // len(messages)
    print(f"\nDurable append of single messages: {rounds} interleaved rounds of {batch}, {size:,} bytes on average.")
    print("Ratio of rates to the bare loop, round by round: median (middle half; all rounds). Undisturbed: the ratio")
    print("of the first quartiles, which other processes on this machine can hardly have slowed down.\n")
    print_table(
        ("contender", "ms per message", "ratio to bare", "undisturbed", "target"),
        [
            (
                name,
                f"{spread(needed).median / batch * 1000:.3f}",
                ratios(needed, seconds[BARE]).show(),
                f"{spread(seconds[BARE]).low / spread(needed).low:.2f}",
                _target(name),
            )
            for name, needed in seconds.items()
        ],
    )


def _ask(worker: Worker, mode: str, length: int, batch: int, number: int) -> float:
    first = number * batch % (length - batch + 1)
    return float(worker.ask(held=mode == HELD, first=first, count=batch))


def _target(name: str) -> str:
    mode = name.rpartition(", ")[2]
    return "" if name.startswith(PEER) or mode not in TARGETS else f"≥ {TARGETS[mode]}"


def growth(folder: str, messages: list[Message], rounds: int, batch: int, size: int) -> None:
    """Compare the cost of an append to a session of `size` messages with one to a session of ten."""
    rows = []
    for layout, kind in LAYOUTS.items():
        make = partial(kind, os.path.join(folder, f"grown-{layout}"))
        store = make()
        store.create(Session(id="late"))
        start = now()
        with store.open("late") as writer:
            for number in range(size):
                writer.append(messages[number % len(messages)])
        print(f"{layout}: filled with {size:,} messages in {now() - start:.0f} s", flush=True)
        contenders: dict[str, Callable[[int], float]] = {}
        for age in ("late", "early"):
            contenders[f"{age} {HELD}"] = partial(_aged, store, age, messages, _held_once, batch)
            contenders[f"{age} {CLOSED}"] = partial(_aged, store, age, messages, closed, batch)
            contenders[f"{age} new store"] = partial(_aged, store, age, messages, partial(_fresh, make), batch)
        seconds = in_turns(contenders, rounds)
        for mode in (HELD, CLOSED, "new store"):
            late, early = seconds[f"late {mode}"], seconds[f"early {mode}"]
            rows.append(
                (
                    f"{layout}, {'by a new store each time' if mode == 'new store' else mode}",
                    spread([a / b for a, b in zip(late, early, strict=True)]).show(),
                    f"{spread(late).low / spread(early).low:.2f}",
                )
            )
    print(
        f"\nThe cost of an append at message {size:,}, as a multiple of that at message {EARLY} (target: within 10 %)\n"
    )
    print_table(("mode", "late / early", "undisturbed"), rows)


Mode = Callable[[FileStore, str, list[Message], int, int], float]


def _aged(store: FileStore, age: str, messages: list[Message], mode: Mode, batch: int, number: int) -> float:
    """Append to the long session, or to a new one with only ten messages."""
    if age == "late":
        return mode(store, age, messages, batch, number)
    session_id = ids.new_session_id("early-")
    store.create(Session(id=session_id))
    for message in messages[:EARLY]:
        store.append(session_id, message)
    return mode(store, session_id, messages, batch, number)


def _held_once(store: FileStore, session_id: str, messages: list[Message], batch: int, number: int) -> float:
    with store.open(session_id) as writer:
        writer.append(messages[0])  # exclude the cost of opening
        return held(writer, messages, batch, number)


def _fresh(
    make: Callable[[], FileStore], _: FileStore, session_id: str, messages: list[Message], batch: int, number: int
) -> float:
    return fresh(make, session_id, messages, batch, number)


def main() -> None:
    options = arguments(__doc__ or "", rounds=200, batch=10, grow=100_000, peer=1)
    messages = [Message(role=role_of(number), content=text) for number, text in enumerate(texts(1_000))]
    with work_folder() as folder:
        rates(folder, messages, options.rounds, options.batch, bool(options.peer))
        if options.grow:
            growth(folder, messages, options.rounds, options.batch, options.grow)


if __name__ == "__main__":
    main()
