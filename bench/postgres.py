"""A store on a real PostgreSQL server beside the bare statements that it could not do without.

python -m bench.postgres [--rounds 15] [--appends 300] [--messages 1000000]          (0 messages: appends only)

The server is one of our own, with every flush done. Append: beside a bare `INSERT … COMMIT` of the same row by the same
driver. List and load: at 10,000 messages and at `--messages`, as a ratio.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from typing import Any

from tests.support.postgres import Postgres, new_space

from bench.common import REPO, arguments, in_turns, print_table, ratios, role_of, spread, texts
from cortext.model.message import Message
from cortext.model.session import Session
from cortext.store.files.log import complete
from cortext.store.postgres.driver import psycopg
from cortext.store.postgres.rows import to_row
from cortext.store.postgres.store import PostgresStore

WORKERS = 8
FEW = 10_000
SESSIONS = 100  # at the small size; the large one has as many messages in each, and more sessions
BARE_INSERT = "bare INSERT … COMMIT"
BARE = (
    b"INSERT INTO cortext.messages (session_id, life, seq, id, role, said_at, tokens, content, more) "
    b"VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)"
)


def main() -> None:
    options = arguments(__doc__ or "", rounds=15, appends=300, messages=1_000_000)
    server = Postgres(flags=("max_wal_size=4GB",), folder=f"{REPO}/.cache")
    try:
        append(server, options.rounds, options.appends)
        if options.messages:
            reading(server, options.rounds, options.messages)
    finally:
        server.stop()


# ── appending ────────────────────────────────────────────────────────────────────────────────────────


def append(server: Postgres, rounds: int, count: int) -> None:
    said = texts(count)
    rows: list[tuple[str, ...]] = []
    for workers in (1, WORKERS):
        share = max(20, count // workers)
        ways: dict[str, Callable[[int], float]] = {
            name: Crew(server.url, workers, name, said[:share]).round
            for name in (BARE_INSERT, "append alone", "held open")
        }
        for way in ways.values():
            way(0)
        seconds = in_turns(ways, rounds)
        for name, needed in seconds.items():
            rate = spread([workers * share / one for one in needed]).show("{:.0f}")
            ratio = ratios(needed, seconds[BARE_INSERT]).show()
            rows.append((f"{workers} × {name}", rate, ratio, "" if name == BARE_INSERT else "≥ 0.8"))
        for way in ways.values():
            way(-1)
    print(f"\nDurable appends of one message, {rounds} rounds in turns: median (middle half; all rounds).\n")
    print_table(("workers", "messages/s", "ratio to bare INSERT … COMMIT", "target"), rows)


class Crew:
    """Processes that append when they are told, all at once."""

    def __init__(self, url: str, workers: int, way: str, said: list[str]) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipes = []
        for number in range(workers):
            ours, theirs = context.Pipe()
            context.Process(target=work, args=(theirs, url, f"{new_space()}-{number}", way, said), daemon=True).start()
            self._pipes.append(ours)
        for pipe in self._pipes:
            pipe.recv()

    def round(self, number: int) -> float:
        """How long they needed, the slowest of them; -1 ends them."""
        begin = time.perf_counter()
        for pipe in self._pipes:
            pipe.send(number)
        for pipe in self._pipes:
            pipe.recv()
        return time.perf_counter() - begin


def work(pipe: Any, url: str, space: str, way: str, said: list[str]) -> None:
    store = PostgresStore(url, space)
    store.create(Session(id=space))
    messages = [Message(role=role_of(place), content=text) for place, text in enumerate(said)]
    pipe.send("ready")
    connection = psycopg.connect(url, autocommit=True)
    rows = _rows(space, 0, messages)
    while (number := pipe.recv()) >= 0:
        if way == BARE_INSERT:
            for row in rows:
                connection.execute(BARE, row, prepare=True)
        elif way == "held open":
            with store.open(space) as writer:
                for message in messages:
                    writer.append(message)
        else:
            for message in messages:
                store.append(space, message)
        pipe.send(number)
        rows = _rows(space, rows[-1][2] + 1, messages)  # made before the next round begins: a bare insert makes none
    connection.close()
    store.close()
    pipe.send("done")


def _rows(space: str, seq: int, messages: list[Message]) -> list[tuple[Any, ...]]:
    return [(space, 1, seq + place, *to_row(complete(message, 0))) for place, message in enumerate(messages)]


# ── reading ──────────────────────────────────────────────────────────────────────────────────────────


def reading(server: Postgres, rounds: int, many: int) -> None:
    stores = {count: fill(server, count) for count in (FEW, many)}
    tasks: dict[str, Callable[[PostgresStore], object]] = {
        "list of 50 sessions": lambda store: store.listed(limit=50),
        "last 50 messages": lambda store: store.tail("talk-50", 50),
        "find two words": lambda store: store.find("clear error", 20),
    }
    rows = []
    for name, task in tasks.items():
        needed = in_turns({str(count): _timed(task, store) for count, store in stores.items()}, rounds * 4)
        few, large = needed[str(FEW)], needed[str(many)]
        ratio = spread([b / a for a, b in zip(few, large, strict=True)])
        times = [spread([1000 * one for one in each]).show() for each in (few, large)]
        rows.append((name, *times, ratio.show(), "≤ 1.5" if "find" not in name else ""))
    print(f"\nReading, ms: at {FEW:,} and at {many:,} messages.\n")
    print_table(("", f"{FEW:,}", f"{many:,}", "times as long", "target"), rows)


def _timed(task: Callable[[PostgresStore], object], store: PostgresStore) -> Callable[[int], float]:
    def timed(_: int) -> float:
        begin = time.perf_counter()
        task(store)
        return time.perf_counter() - begin

    task(store)
    return timed


def fill(server: Postgres, count: int) -> PostgresStore:
    """A space with so many messages, put there by COPY: that is not what is measured."""
    store = PostgresStore(server.url, new_space())
    sessions = count * SESSIONS // FEW
    each = count // sessions
    said = texts(2000)
    for number in range(sessions):
        day = f"2026-{1 + number // 28 % 12:02}-{1 + number % 28:02}T{number % 24:02}:00:00Z"
        store.create(Session(id=f"talk-{number}", title=f"talk {number}", created_at=day))
    lives = dict(server.sql("SELECT session_id, life FROM cortext.sessions WHERE space = %s", store.space))
    with psycopg.connect(server.url, autocommit=True) as connection:
        with connection.cursor().copy(
            BARE.split(b" VALUES")[0].replace(b"INSERT INTO", b"COPY") + b" FROM STDIN"
        ) as copy:
            for number in range(sessions):
                for seq in range(each):
                    message = Message(role=role_of(seq), content=said[(number * 7 + seq) % len(said)])
                    row = to_row(complete(message, seq))
                    copy.write_row((f"talk-{number}", lives[f"talk-{number}"], seq, *row))
        connection.execute(
            b"UPDATE cortext.sessions SET next_seq = %s, message_count = %s WHERE space = %s", (each, each, store.space)
        )
        connection.execute(b"VACUUM ANALYZE cortext.messages")
        connection.execute(b"VACUUM ANALYZE cortext.sessions")
    return store


if __name__ == "__main__":
    main()
