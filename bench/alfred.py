"""The assistant: what its machinery adds to a turn, what the worker costs, and how fast vectors are made.

`python -m bench.alfred [--sessions 10000] [--messages 50] [--turns 60]` makes a history of 100 sessions and a large one
under .cache, and takes turns between the two. A turn is measured in two parts: from the user's words to the request
that would go to the model, and from the model's reply to its being stored; the model itself answers at once.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from functools import partial

from bench.common import arguments, in_turns, print_table, role_of, spread, texts, work_folder
from cortext.llm.base import Done, Event, Request, Text
from cortext.model.message import USER, Message
from cortext.services.assistant.backfill import embed_many, lacking
from cortext.services.assistant.turn import Assistant
from cortext.store.files.lines import encode_message
from cortext.store.files.log import complete
from cortext.wiring.app import Wiring


class Instant:
    """A model that answers at once, and remembers when it was asked."""

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


class House:
    """An assistant with a history."""

    def __init__(self, folder: str, sessions: int, messages: int) -> None:
        # The history is written as files: through the store it would take an hour, and be the same.
        self.root = os.path.join(folder, "data", "alfred", "sessions")
        words = texts(997)
        for number in range(sessions):
            place = os.path.join(self.root, f"sess_{number:06d}")
            os.makedirs(place, mode=0o700)
            moment = f"2026-{1 + number % 9:02d}-{1 + number % 28:02d}T10:00:00.000Z"
            with open(os.path.join(place, "meta.json"), "w", encoding="utf-8") as file:
                file.write(
                    f'{{"session_id": "sess_{number:06d}", "created_at": "{moment}", "last_active": "{moment}"}}\n'
                )
            with open(os.path.join(place, "current.jsonl"), "wb") as log:
                for seq in range(messages):
                    text = words[(number * messages + seq) % len(words)]
                    message = complete(Message(role=role_of(seq), content=text, timestamp=moment), seq)
                    log.write(encode_message(message, b'"idx": %d, ' % seq))
        self.folder = folder
        self.enter()
        self.wiring = Wiring(folder)
        self.assistant: Assistant = self.wiring.assistant()
        self.sessions, self.messages = sessions, messages
        self.model = Instant()
        for number in range(40):
            self.assistant.memory.remember(f"fact number {number}: the retry budget of service {number} is {number} s")

    def enter(self) -> None:
        """Make this house the one whose files are used."""
        for name in ("DATA", "CACHE", "STATE", "CONFIG"):
            os.environ[f"XDG_{name}_HOME"] = os.path.join(self.folder, name.lower())

    def turn(self, number: int) -> tuple[float, float]:
        """One turn in some session: seconds until the model is asked, and from its answer until that is stored."""
        chat = f"tg_{number % 50}"
        begun = time.perf_counter()
        session_id, _ = self.assistant.sessions.ensure(chat)
        talk = self.assistant.talk(session_id, self.model)
        self.assistant.say(talk, Message(role=USER, content=f"question {number}: what about the retry budget?"))
        for _ in talk.answer():
            pass
        return self.model.asked - begun, time.perf_counter() - self.model.answered

    def settle_in(self) -> None:
        """Every chat is in a session of the history, as a user's is; the last passes of a worker were made."""
        for number in range(50):
            self.assistant.sessions.chats.activate(f"tg_{number}", f"sess_{number * self.sessions // 50:06d}")


def main() -> None:
    given = arguments(__doc__ or "", sessions=10_000, messages=50, turns=60, rounds=5)
    with work_folder() as small_folder, work_folder() as large_folder:
        houses = {}
        for name, folder, sessions in (
            ("100", small_folder, 100),
            (f"{given.sessions:,}", large_folder, given.sessions),
        ):
            begun = time.perf_counter()
            houses[name] = House(folder, sessions, given.messages)
            houses[name].settle_in()
            print(f"{sessions:,} sessions of {given.messages} messages made in {time.perf_counter() - begun:.0f} s")
        _turns(houses, given.turns, given.rounds)
        _backfill(houses, given.rounds)
        _worker(houses, given.rounds)


def _turns(houses: dict[str, House], turns: int, rounds: int) -> None:
    measured: dict[str, list[float]] = {name: [] for name in houses}

    def contender(name: str, house: House, _: int) -> float:
        house.enter()
        seconds = 0.0
        for number in range(turns):
            before, after = house.turn(number)
            measured[name].append(1000 * (before + after))
            seconds += before + after
        return seconds

    in_turns({name: partial(contender, name, house) for name, house in houses.items()}, rounds)
    rows = []
    for name, values in measured.items():
        ordered = sorted(values)
        rows.append(
            [name, *(f"{ordered[int(len(ordered) * share)]:.2f}" for share in (0.5, 0.95, 0.99)), f"{ordered[-1]:.2f}"]
        )
    rows.append(_floor(turns * rounds))
    print("\nWhat a turn costs beside the model, ms (a turn stores two messages, each flushed)")
    print_table(["sessions", "p50", "p95", "p99", "most"], rows)


def _floor(count: int) -> list[str]:
    """Two bare writes with their flush, as the disk is now: no turn can cost less."""
    values = []
    with work_folder() as folder, open(os.path.join(folder, "log"), "ab", buffering=0) as file:
        for _ in range(count):
            begun = time.perf_counter()
            for _ in range(2):
                file.write(b"x" * 600)
                os.fsync(file.fileno())
            values.append(1000 * (time.perf_counter() - begun))
    values.sort()
    return [
        "two bare flushes",
        *(f"{values[int(count * share)]:.2f}" for share in (0.5, 0.95, 0.99)),
        f"{values[-1]:.2f}",
    ]


def _backfill(houses: dict[str, House], rounds: int) -> None:
    house = list(houses.values())[-1]
    house.enter()
    embedder = house.wiring.embedder()
    embedder.embed(["warm"] * 10)
    store = house.assistant.store
    rates, of_cpu = [], []
    for number in range(rounds):
        names = [f"sess_{number * 60 + place + 1:06d}" for place in range(60)]
        begun, cpu = time.perf_counter(), time.process_time()
        done = 0
        for start in range(0, 60, 10):
            lot = {name: lacking(store, name, embedder.name) for name in names[start : start + 10]}
            done += embed_many(store, embedder, lot)
        rates.append(done / (time.perf_counter() - begun))
        of_cpu.append(done / (time.process_time() - cpu))
    print("Vectors made and stored, messages a second")
    rows = [["on the clock", spread(rates).show("{:,.0f}")], ["of processor time", spread(of_cpu).show("{:,.0f}")]]
    print_table(["", "a second"], rows)


def _worker(houses: dict[str, House], rounds: int) -> None:
    rows = []
    for name, house in houses.items():
        house.enter()
        worker = house.wiring.chat_worker(house.assistant)
        begun = time.perf_counter()
        worker._listing.refresh()
        for chore in ("embed", "summarise"):
            for due in worker._chores.due(chore):
                worker._chores.settled(chore, due)  # as if every session had been looked after
        print(f"{name} sessions: the list was made in {time.perf_counter() - begun:.1f} s")
        passes = []
        for _ in range(rounds * 4):
            begun = time.perf_counter()
            done = worker.run()
            passes.append(1000 * (time.perf_counter() - begun))
            assert not done.embedded
            assert not done.summarised
        rows.append([name, spread(passes).show("{:.1f}")])
    print("A pass of the worker with nothing to do, ms")
    print_table(["sessions", "a pass"], rows)


if __name__ == "__main__":
    main()
