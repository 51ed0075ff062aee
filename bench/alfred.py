"""The assistant: the overhead of a turn, the cost of the worker, and the rate at which vectors are made.

`python -m bench.alfred [--sessions 10000] [--messages 50] [--turns 60]` creates a history of 100 sessions and a large
one under .cache, and alternates between the two. A turn is measured in two parts: from the user's message to the
request to the model, and from the model's reply until it is stored; the model itself answers at once.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from functools import partial

from bench.common import arguments, in_turns, print_table, role_of, spread, texts, work_folder
from cortext.agents.assistant.build import build_assistant, build_worker
from cortext.agents.assistant.turn import Assistant
from cortext.agents.llm.base import Done, Event, Request, Text
from cortext.model.message import USER, Message
from cortext.services.library.backfill import embed_many, without_vector
from cortext.store.files.lines import encode_message
from cortext.store.files.log import complete
from cortext.wiring.stores import Stores
from cortext.wiring.stores import embedder as static_embedder


class Instant:
    """A model that answers at once and records when it was asked."""

    name, context, takes_tools = "bench/instant", 200_000, True

    def __init__(self) -> None:
        self.asked = 0.0
        self.answered = 0.0

    def stream(self, request: Request) -> Iterator[Event]:
        self.asked = time.perf_counter()
        yield Text("That is a good question. " * 20)
        self.answered = time.perf_counter()
        yield Done()

    def cancel(self) -> None: ...

    def warm(self) -> None: ...


class History:
    """An assistant with a history of sessions."""

    def __init__(self, folder: str, sessions: int, messages: int) -> None:
        # Written directly as files: the store would produce the same ones, but take an hour.
        self.root = os.path.join(folder, "data", "alfred", "sessions")
        words = texts(997)
        for number in range(sessions):
            path = os.path.join(self.root, f"sess_{number:06d}")
            os.makedirs(path, mode=0o700)
            timestamp = f"2026-{1 + number % 9:02d}-{1 + number % 28:02d}T10:00:00.000Z"
            with open(os.path.join(path, "meta.json"), "w", encoding="utf-8") as file:
                times = f'"created_at": "{timestamp}", "last_active": "{timestamp}"'
                file.write(f'{{"session_id": "sess_{number:06d}", {times}}}\n')
            with open(os.path.join(path, "current.jsonl"), "wb") as log:
                for seq in range(messages):
                    text = words[(number * messages + seq) % len(words)]
                    message = complete(Message(role=role_of(seq), content=text, timestamp=timestamp), seq)
                    log.write(encode_message(message, b'"idx": %d, ' % seq))
        self.folder = folder
        self.enter()
        self.stores = Stores(folder)
        self.assistant: Assistant = build_assistant(self.stores)
        self.sessions, self.messages = sessions, messages
        self.model = Instant()
        for number in range(40):
            self.assistant.memory.remember(f"fact number {number}: the retry budget of service {number} is {number} s")

    def enter(self) -> None:
        """Point the XDG variables at this assistant's files."""
        for name in ("DATA", "CACHE", "STATE", "CONFIG"):
            os.environ[f"XDG_{name}_HOME"] = os.path.join(self.folder, name.lower())

    def turn(self, number: int) -> tuple[float, float]:
        """Run one turn; return the seconds until the model is asked, and from its answer until that is stored."""
        chat = f"tg_{number % 50}"
        began = time.perf_counter()
        session_id, _ = self.assistant.sessions.ensure(chat)
        talk = self.assistant.talk(session_id, self.model)
        self.assistant.say(talk, Message(role=USER, content=f"question {number}: what about the retry budget?"))
        for _ in talk.answer():
            pass
        return self.model.asked - began, time.perf_counter() - self.model.answered

    def activate_sessions(self) -> None:
        """Make a session of the history the active one of every chat."""
        for number in range(50):
            self.assistant.sessions.chats.activate(f"tg_{number}", f"sess_{number * self.sessions // 50:06d}")


def main() -> None:
    given = arguments(__doc__ or "", sessions=10_000, messages=50, turns=60, rounds=5)
    with work_folder() as small_folder, work_folder() as large_folder:
        histories = {}
        for name, folder, sessions in (
            ("100", small_folder, 100),
            (f"{given.sessions:,}", large_folder, given.sessions),
        ):
            began = time.perf_counter()
            histories[name] = History(folder, sessions, given.messages)
            histories[name].activate_sessions()
            print(f"{sessions:,} sessions of {given.messages} messages written in {time.perf_counter() - began:.0f} s")
        _turns(histories, given.turns, given.rounds)
        _backfill(histories, given.rounds)
        _worker(histories, given.rounds)


def _turns(histories: dict[str, History], turns: int, rounds: int) -> None:
    measured: dict[str, list[float]] = {name: [] for name in histories}

    def contender(name: str, history: History, _: int) -> float:
        history.enter()
        seconds = 0.0
        for number in range(turns):
            before, after = history.turn(number)
            measured[name].append(1000 * (before + after))
            seconds += before + after
        return seconds

    in_turns({name: partial(contender, name, history) for name, history in histories.items()}, rounds)
    rows = []
    for name, values in measured.items():
        ordered = sorted(values)
        rows.append(
            [name, *(f"{ordered[int(len(ordered) * share)]:.2f}" for share in (0.5, 0.95, 0.99)), f"{ordered[-1]:.2f}"]
        )
    rows.append(_floor(turns * rounds))
    print("\nCost of a turn without the model, ms (a turn stores two messages, each flushed)")
    print_table(["sessions", "p50", "p95", "p99", "max"], rows)


def _floor(count: int) -> list[str]:
    """Time two bare writes with a flush each: the lower bound of a turn on this disk."""
    values = []
    with work_folder() as folder, open(os.path.join(folder, "log"), "ab", buffering=0) as file:
        for _ in range(count):
            began = time.perf_counter()
            for _ in range(2):
                file.write(b"x" * 600)
                os.fsync(file.fileno())
            values.append(1000 * (time.perf_counter() - began))
    values.sort()
    return [
        "two bare flushes",
        *(f"{values[int(count * share)]:.2f}" for share in (0.5, 0.95, 0.99)),
        f"{values[-1]:.2f}",
    ]


def _backfill(histories: dict[str, History], rounds: int) -> None:
    history = list(histories.values())[-1]
    history.enter()
    embedder = static_embedder()
    embedder.embed(["warm"] * 10)
    store = history.assistant.store
    rates, cpu_rates = [], []
    for number in range(rounds):
        names = [f"sess_{number * 60 + index + 1:06d}" for index in range(60)]
        began, cpu = time.perf_counter(), time.process_time()
        done = 0
        for start in range(0, 60, 10):
            batch = {name: without_vector(store, name, embedder.name) for name in names[start : start + 10]}
            done += embed_many(store, embedder, batch)
        rates.append(done / (time.perf_counter() - began))
        cpu_rates.append(done / (time.process_time() - cpu))
    print("Vectors made and stored, messages per second")
    rows = [["wall clock", spread(rates).show("{:,.0f}")], ["CPU time", spread(cpu_rates).show("{:,.0f}")]]
    print_table(["", "per second"], rows)


def _worker(histories: dict[str, History], rounds: int) -> None:
    rows = []
    for name, history in histories.items():
        history.enter()
        worker = build_worker(history.stores, history.assistant)
        began = time.perf_counter()
        worker._listing.refresh()
        for chore in ("embed", "summarise"):
            for due in worker._jobs.due(chore):
                worker._jobs.settled(chore, due)  # as if no session were due
        print(f"{name} sessions: the list was built in {time.perf_counter() - began:.1f} s")
        passes = []
        for _ in range(rounds * 4):
            began = time.perf_counter()
            done = worker.run()
            passes.append(1000 * (time.perf_counter() - began))
            assert not done.embedded
            assert not done.summarised
        rows.append([name, spread(passes).show("{:.1f}")])
    print("A pass of the worker with nothing to do, ms")
    print_table(["sessions", "per pass"], rows)


if __name__ == "__main__":
    main()
