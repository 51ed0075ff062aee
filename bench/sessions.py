"""Sessions of a store: durable appends, and loading 10,000 messages, compared with the stores of three frameworks."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import Any, TypeVar

from bench.common import (
    PEER_SESSIONS,
    Worker,
    arguments,
    in_turns,
    peers,
    print_table,
    ratios,
    role_of,
    spread,
    texts,
    work_folder,
)
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
TAIL = 50
OURS = ("workspace", "spawn", "chat")
THEIRS = {
    "openai": "openai-agents SQLiteSession",
    "langgraph": "langgraph SqliteSaver",
    "adk": "google-adk SqliteSessionService",
}


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
            worker = Worker(peers(), PEER_SESSIONS, "append", os.path.join(folder, "peer.db"))
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


def run_append() -> None:
    """Durable append compared with a bare `write + fsync` of the same bytes and with openai-agents' SQLiteSession.

    python -m bench append [--rounds 200] [--batch 10] [--grow 100000] [--peer 1]
    """
    options = arguments(run_append, rounds=200, batch=10, grow=100_000, peer=1)
    messages = [Message(role=role_of(number), content=text) for number, text in enumerate(texts(1_000))]
    with work_folder() as folder:
        rates(folder, messages, options.rounds, options.batch, bool(options.peer))
        if options.grow:
            growth(folder, messages, options.rounds, options.batch, options.grow)


def run_load() -> None:
    """Loading a session of 10,000 messages, and its last 50, compared with the session stores of three frameworks.

    python -m bench load [--messages 10000] [--rounds 15]
    """
    options = arguments(run_load, messages=10_000, rounds=15)
    with work_folder() as folder:
        workers: dict[str, Worker] = {}
        for name in (*OURS, *THEIRS):
            program = (sys.executable, "-m", "bench.sessions") if name in OURS else (peers(), PEER_SESSIONS)
            workers[name] = Worker(*program, name, os.path.join(folder, name))
        said = texts(options.messages)
        size = sum(len(text.encode()) for text in said)
        print(f"{options.messages:,} messages, {size / 1e6:.1f} MB of text. How each store was filled:")
        for name, worker in workers.items():
            print(f"- {_label(name)}: {worker.ask(build=said)}", flush=True)
        rows = []
        for name, worker in workers.items():
            whole, last = worker.ask(load=0), worker.ask(load=TAIL)  # warm up, and check what it finds
            assert (whole["count"], last["count"]) == (options.messages, TAIL), name
            assert whole["last"] == last["last"] == said[-1], name
        for count in (0, TAIL):
            seconds = in_turns(
                {name: partial(_load, worker, count) for name, worker in workers.items()}, options.rounds
            )
            best = min(OURS, key=lambda name: spread(seconds[name]).median)
            for name, needed in seconds.items():
                what = f"the last {count}" if count else "whole"
                ratio = ratios(seconds[best], needed).show("{:.1f}") if name in THEIRS else ""
                rows.append((f"{_label(name)}, {what}", spread([x * 1000 for x in needed]).show("{:.2f}"), ratio))
        for worker in workers.values():
            worker.close()
    print(
        f"\nThe load alone, without imports, {options.rounds} interleaved rounds: median (middle half; all rounds).\n"
    )
    print_table(("session store", "ms", "times our fastest"), rows)


def _load(worker: Worker, count: int, _: int) -> float:
    return float(worker.ask(load=count)["seconds"])


def _label(name: str) -> str:
    return THEIRS.get(name, f"cortext, {name} layout")


def build(store: FileStore, said: list[str]) -> str:
    """Fill a session as a user would; return a description of how."""
    store.create(Session(id="long"))
    start = time.perf_counter()
    with store.open("long") as writer:
        for number, text in enumerate(said):
            writer.append(Message(role="assistant" if number % 2 else "user", content=text))
    return f"one durable append per message, {time.perf_counter() - start:.1f} s"


def load(store: FileStore, count: int) -> dict[str, Any]:
    """Load the whole session, or its last `count` messages."""
    start = time.perf_counter()
    messages = store.tail("long", count) if count else list(store.read("long"))
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "count": len(messages), "last": messages[-1].content}


def answer_loads() -> None:
    """Load from one of our layouts as lines of JSON on stdin ask for it: a process of its own, like the peers."""
    kind, folder = sys.argv[1:]
    store = LAYOUTS[kind](folder)
    for line in sys.stdin:
        question = json.loads(line)
        answer = (
            build(store, question["build"]) if "build" in question else load(LAYOUTS[kind](folder), question["load"])
        )
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    answer_loads()
