"""A store on a real PostgreSQL server, compared with the bare statements it cannot do without."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from tests.support.postgres import PASSWORD, Postgres, as_role, new_space

from bench.common import REPO, arguments, in_turns, lengths, print_table, ratios, role_of, spread, texts
from bench.search import words
from cortext.model import clock
from cortext.model.message import Message
from cortext.model.session import Session
from cortext.server import admin
from cortext.server.driver import psycopg
from cortext.server.rows import to_row
from cortext.server.store import PostgresStore
from cortext.store.files.log import complete

WORKERS = (1, 8, 16)
FEW = 10_000
SESSIONS = 100  # at the small size; the large one has more sessions of the same length
ACTIVE = 10  # sessions with a message of today
RARE = "quokkaberry"  # in ten messages of each size
SELDOM, SELDOM_IN = "wombatpear", 1000  # in one of so many messages, so there are more in a larger store
COMMON = "the of"  # both are in most messages
LETTERS = 6  # of a word and the space after it, on average
# The best ten of one space, by key.
BEST = """
SELECT m.session_id, m.seq FROM cortext.messages m
JOIN cortext.sessions s ON s.session_id = m.session_id AND m.life BETWEEN s.life AND s.life
WHERE s.space = %s AND s.owner = %s AND s.deleted_at IS NULL AND m.words @@ plainto_tsquery('simple', %s)
ORDER BY ts_rank(m.words, plainto_tsquery('simple', %s), 33) DESC, s.last_active DESC, m.seq LIMIT 10
"""
BARE_INSERT = "bare INSERT … COMMIT"
BARE = (
    b"INSERT INTO cortext.messages (session_id, life, seq, id, role, said_at, tokens, content, more) "
    b"VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s)"
)


def run_postgres() -> None:
    """A store on a real PostgreSQL server, compared with the bare statements it cannot do without.

    python -m bench postgres [--rounds 15] [--appends 300] [--messages 1000000] [--policies 0] [--leakproof 0]

    It starts its own server, with fsync on. Append: compared with a bare `INSERT … COMMIT` of the same row by the same
    driver. List, load, find and what doctor counts after a clean run: the ratio of `--messages` to 10,000 messages.
    Find: compared with one statement that ranks every match and returns only its key, and its ten best with those of an
    exact scan without the index. 0 appends or 0 messages leave that part out. With `--policies 1` the store works as a
    role of a team, under row-level security; the statements it is compared with run as the administrator, without. With
    `--leakproof 1` too, a superuser has declared that matching words reveals nothing (`docs/operations.md`).
    """
    options = arguments(run_postgres, rounds=15, appends=300, messages=1_000_000, policies=0, leakproof=0)
    server = Postgres(flags=("max_wal_size=4GB", "max_connections=200"), folder=f"{REPO}/.cache")
    try:
        url = as_team(server) if options.policies else server.url
        if options.leakproof:
            server.sql("ALTER FUNCTION pg_catalog.ts_match_vq(tsvector, tsquery) LEAKPROOF")
        if options.appends:
            append(server, url, options.rounds, options.appends)
        if options.messages:
            reading(server, url, options.rounds, options.messages)
    finally:
        server.stop()


def as_team(server: Postgres) -> str:
    """Install the policies and return the URL of a role that they bind."""
    server.sql(f"CREATE ROLE ann LOGIN PASSWORD '{PASSWORD}'")
    admin.migrate(server.url, report=lambda step: None)
    admin.run(server.url, [admin.grants(server.url, "ann"), *admin.policies(server.url)])
    return as_role(server.url, "ann")


# ── appending ────────────────────────────────────────────────────────────────────────────────────────


def append(server: Postgres, url: str, rounds: int, count: int) -> None:
    said = texts(count)
    rows: list[tuple[str, ...]] = []
    for workers in WORKERS:
        share = max(20, count // workers)
        modes: dict[str, Callable[[int], float]] = {
            name: Crew(server.url if name == BARE_INSERT else url, workers, name, said[:share]).round
            for name in (BARE_INSERT, "append alone", "held open")
        }
        for mode in modes.values():
            mode(0)
        seconds = in_turns(modes, rounds)
        for name, needed in seconds.items():
            rate = spread([workers * share / one for one in needed]).show("{:.0f}")
            ratio = ratios(needed, seconds[BARE_INSERT]).show()
            rows.append((f"{workers} × {name}", rate, ratio, "" if name == BARE_INSERT else "≥ 0.8"))
        for mode in modes.values():
            mode(-1)
    print(f"\nDurable appends of one message, {rounds} interleaved rounds: median (middle half; all rounds).\n")
    print_table(("workers", "messages/s", "ratio to bare INSERT … COMMIT", "target"), rows)


class Crew:
    """Processes that all append at once, when asked."""

    def __init__(self, url: str, workers: int, mode: str, said: list[str]) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipes = []
        for number in range(workers):
            ours, theirs = context.Pipe()
            context.Process(target=work, args=(theirs, url, f"{new_space()}-{number}", mode, said), daemon=True).start()
            self._pipes.append(ours)
        for pipe in self._pipes:
            pipe.recv()

    def round(self, number: int) -> float:
        """Run a round and return the seconds of the slowest process; -1 stops them."""
        begin = time.perf_counter()
        for pipe in self._pipes:
            pipe.send(number)
        for pipe in self._pipes:
            pipe.recv()
        return time.perf_counter() - begin


def work(pipe: Any, url: str, space: str, mode: str, said: list[str]) -> None:
    store = PostgresStore(url, space)
    store.create(Session(id=space))
    messages = [Message(role=role_of(index), content=text) for index, text in enumerate(said)]
    pipe.send("ready")
    connection = psycopg.connect(url, autocommit=True)
    rows = _rows(space, 0, messages)
    while (number := pipe.recv()) >= 0:
        if mode == BARE_INSERT:
            for row in rows:
                connection.execute(BARE, row, prepare=True)
        elif mode == "held open":
            with store.open(space) as writer:
                for message in messages:
                    writer.append(message)
        else:
            for message in messages:
                store.append(space, message)
        pipe.send(number)
        rows = _rows(
            space, rows[-1][2] + 1, messages
        )  # prepared before the next round, because a bare insert does not encode
    connection.close()
    store.close()
    pipe.send("done")


def _rows(space: str, seq: int, messages: list[Message]) -> list[tuple[Any, ...]]:
    return [(space, 1, seq + index, *to_row(complete(message, 0))) for index, message in enumerate(messages)]


# ── reading ──────────────────────────────────────────────────────────────────────────────────────────


def reading(server: Postgres, url: str, rounds: int, many: int) -> None:
    stores = {count: fill(server, url, count) for count in (FEW, many)}
    tasks: dict[str, Callable[[PostgresStore], object]] = {
        "list of 50 sessions": lambda store: store.listed(limit=50),
        "last 50 messages": lambda store: store.tail(f"talk-{store.space}-50", 50),
        "find two words that most messages have": lambda store: store.find(COMMON, 20),
        f"find a word that one in {SELDOM_IN:,} has": lambda store: store.find(SELDOM, 20),
        "find a word that is in ten messages": lambda store: store.find(RARE, 20),
        f"doctor, {ACTIVE} sessions active since its last run": lambda store: list(store.miscounted(clock.now())),
    }
    rows = []
    for name, task in tasks.items():
        needed = in_turns({str(count): _timed(task, store) for count, store in stores.items()}, rounds * 4)
        few, large = needed[str(FEW)], needed[str(many)]
        ratio = spread([b / a for a, b in zip(few, large, strict=True)])
        times = [spread([1000 * one for one in series]).show() for series in (few, large)]
        rows.append((name, *times, ratio.show(), "≤ 2"))
    compare_search(server, stores[many], rounds)
    print(f"\nReading, ms: at {FEW:,} and at {many:,} messages.\n")
    print_table(("", f"{FEW:,}", f"{many:,}", "times as long", "target"), rows)


def compare_search(server: Postgres, store: PostgresStore, rounds: int) -> None:
    """Compare find with the best single statement, in time and in what it finds."""
    with psycopg.connect(server.url, autocommit=True, prepare_threshold=None) as connection:
        for text in (COMMON, SELDOM, RARE):
            values = (store.space, store.scope.owner, text, text)
            calls: dict[str, Callable[[int], float]] = {
                "find": _timed(lambda each, text=text: each.find(text, 10), store),  # type: ignore[misc]
                "one statement": _timed(lambda _, values=values: connection.execute(BEST, values).fetchall(), store),  # type: ignore[misc]
            }
            needed = in_turns(calls, rounds * 2)
            p95 = {name: sorted(series)[int(0.95 * (len(series) - 1))] * 1000 for name, series in needed.items()}
            connection.execute("SET enable_bitmapscan = off")
            exact = [tuple(row) for row in connection.execute(BEST, values).fetchall()]
            connection.execute("SET enable_bitmapscan = on")
            [(matches,)] = connection.execute(f"SELECT count(*) FROM ({BEST.replace('LIMIT 10', '')}) t", values)
            found = [(hit.session.id, hit.message.seq) for hit in store.find(text, 10)]
            recall = len(set(found) & set(exact)) / max(1, len(exact))
            ratio = ratios(needed["one statement"], needed["find"]).show()
            print(
                f"\nfind {text!r} ({matches:,} matches): p95 {p95['find']:.1f} ms, one statement "
                f"{p95['one statement']:.1f} ms; times as long {ratio} (target ≤ 3); recall of the exact ten best: "
                f"{recall:.2f} (target 1)"
            )


def _timed(task: Callable[[PostgresStore], object], store: PostgresStore) -> Callable[[int], float]:
    def timed(_: int) -> float:
        begin = time.perf_counter()
        task(store)
        return time.perf_counter() - begin

    task(store)
    return timed


def fill(server: Postgres, url: str, count: int) -> PostgresStore:
    """Create a space with `count` messages, written by COPY and indexed afterwards: filling is not measured."""
    store = PostgresStore(url, new_space())
    sessions = count * SESSIONS // FEW
    per_session = count // sessions
    for number in range(sessions):
        day = f"2025-{1 + number // 28 % 12:02}-{1 + number % 28:02}T{number % 24:02}:00:00Z"
        store.create(Session(id=f"talk-{store.space}-{number}", title=f"talk {number}", created_at=day))
    lives = dict(server.sql("SELECT session_id, life FROM cortext.sessions WHERE space = %s", store.space))
    said = said_at_random(count)
    with psycopg.connect(server.url, autocommit=True) as connection:
        [(index,)] = connection.execute("SELECT pg_get_indexdef('cortext.messages_words'::regclass)").fetchall()
        connection.execute("DROP INDEX cortext.messages_words")
        with connection.cursor().copy(
            BARE.split(b" VALUES")[0].replace(b"INSERT INTO", b"COPY") + b" FROM STDIN"
        ) as copy:
            for number, (name, life) in enumerate(lives.items()):
                for seq in range(per_session):
                    text = next(said)
                    if seq == 0 and number % (sessions // 10) == 0:
                        text = f"{text} {RARE}"
                    if (number * per_session + seq) % SELDOM_IN == 0:
                        text = f"{text} {SELDOM}"
                    copy.write_row((name, life, seq, *to_row(complete(Message(role=role_of(seq), content=text), seq))))
        connection.execute("SET maintenance_work_mem = '512MB'")
        connection.execute(index)
        connection.execute(
            b"UPDATE cortext.sessions SET next_seq = %s, message_count = %s WHERE space = %s",
            (per_session, per_session, store.space),
        )
        connection.execute(b"VACUUM ANALYZE cortext.messages")
        connection.execute(b"VACUUM ANALYZE cortext.sessions")
    for name in list(lives)[:ACTIVE]:
        store.append(name, Message(role=role_of(0), content="active again"))
    return store


def said_at_random(count: int) -> Iterator[str]:
    """Yield texts as long as real messages, with the frequencies of words in a language: most words are seldom."""
    every, cumulative = words()
    generator = np.random.default_rng(11)
    for begin in range(0, count, FEW):
        sizes = [1 + length // LETTERS for length in lengths(min(FEW, count - begin), seed=begin)]
        drawn = every[np.searchsorted(cumulative, generator.random(sum(sizes)))].tolist()
        end = 0
        for size in sizes:
            yield " ".join(drawn[end : end + size])
            end += size
