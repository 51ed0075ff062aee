"""Search in a large history: its corpus, speed and size, other programs, the memory of making vectors."""

from __future__ import annotations

import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Sequence
from importlib.resources import files

import numpy as np
from numpy.typing import NDArray

from bench.common import (
    BARE,
    CACHE,
    REPO,
    arguments,
    at_home,
    cold,
    environment,
    home_environment,
    in_turns,
    parser_of,
    print_table,
    spread,
    work_folder,
)
from cortext.index.search import vectors
from cortext.index.search.meaning import Meaning, _Making
from cortext.index.search.state import IndexState
from cortext.index.search.vectors import owner
from cortext.model.query import Query
from cortext.services.library.search import Search
from cortext.services.projects.workspaces import remember_workspace
from cortext.wiring.stores import Stores

DAYS = 365
INVENTED = 270_000  # identifiers: they make the vocabulary of real coding sessions large
LENGTH = 37  # mean words per message; the median is about half
TOOLS = ("claude", "gemini", "opencode", "codex")
TYPES = ("brainstorm", "debug", "plan", "review")
STATUSES = ("paused", "completed", "paused", "active")
SMALL = (10_000, 200)  # messages and sessions of the small history that lists are compared with
WARM_UP = 20
PAUSE = 0.02  # seconds between queries: of a real-time process that never waits, Linux stops 50 ms in every second
FILL_LLM = """
import json, sys
import sqlite_utils
from llm.migrations import migrate
database = sqlite_utils.Database(sys.argv[1])
migrate(database)
for number, line in enumerate(open(sys.argv[2], encoding="utf-8")):
    said = json.loads(line)
    name = f"c{number:05}"
    database["conversations"].insert({"id": name, "name": said[0][:40], "model": "m"})
    database["responses"].insert_all(
        {"id": f"{name}-{place:04}", "model": "m", "prompt": said[place], "response": said[place + 1],
         "conversation_id": name, "datetime_utc": "2026-01-01T00:00:00"}
        for place in range(0, len(said) - 1, 2)
    )
"""
DIMENSION = 256
SESSION = 100  # messages per session
MADE, MERGED = 1, 2  # the task of the child process


def words() -> tuple[np.ndarray, np.ndarray]:
    """Return words and their cumulative frequencies, which follow Zipf's law."""
    vocabulary = files("cortext").joinpath("embedding/vocab.txt").read_text(encoding="utf-8").split("\n")
    english = [word for word in vocabulary if word.isascii() and word.isalpha() and len(word) > 1]
    parts = [word for word in english if 3 < len(word) < 8]
    generator = np.random.default_rng(7)
    first, second = generator.integers(0, len(parts), (2, INVENTED))
    shape = generator.integers(0, 3, INVENTED)
    invented = [
        (f"{parts[a]}_{parts[b]}", f"{parts[a]}{parts[b].title()}", f"{parts[a]}/{parts[b]}.py")[form]
        for a, b, form in zip(first.tolist(), second.tolist(), shape.tolist(), strict=True)
    ]
    every = np.array(english + invented, dtype=object)
    weights = 1.0 / (np.arange(len(every)) + 2.7)
    # English words in the order of the vocabulary, which is roughly by frequency.
    return every, np.cumsum(weights) / weights.sum()


def make(folder: str, messages: int, sessions: int) -> int:
    """Write a workspace of this size, unless it exists; return the bytes of text in it."""
    stamp = os.path.join(folder, ".workspace", f"made-{messages}-{sessions}")
    if os.path.exists(stamp):
        with open(stamp, encoding="ascii") as file:
            return int(file.read())
    every, cumulative = words()
    generator = np.random.default_rng(11)
    each = messages // sessions
    size = 0
    for number in range(sessions):
        count = each + (number < messages - each * sessions)
        lengths = np.clip(generator.lognormal(np.log(LENGTH * 0.55), 1.1, count), 2, 4000).astype(int)
        drawn = every[np.searchsorted(cumulative, generator.random(int(lengths.sum())))].tolist()
        size += _session(folder, number, lengths.tolist(), drawn, sessions)
    os.makedirs(os.path.dirname(stamp), exist_ok=True)
    with open(stamp, "w", encoding="ascii") as file:
        file.write(str(size))
    return size


def _session(folder: str, number: int, lengths: list[int], drawn: list[str], sessions: int) -> int:
    begin = time.gmtime(1_730_000_000 + number * (DAYS * 86_400 // sessions))
    day, second = time.strftime("%Y-%m-%d", begin), time.strftime("%Y-%m-%dT%H:%M:%S", begin)
    name = f"{number:06}-{TYPES[number % 4]}-{drawn[0][:12].lower().replace('/', '-').replace('.', '-')}"
    path = os.path.join(folder, "conversations", day, name, ".session")
    os.makedirs(path)
    lines, start, size = [], 0, 0
    for seq, length in enumerate(lengths):
        text = " ".join(drawn[start : start + length])
        start += length
        size += len(text)
        lines.append(
            f'{{"role": "{("user", "assistant")[seq % 2]}", "content": "{text}", "timestamp": "{second}.{seq:03}Z", '
            f'"tokens": {len(text) // 4}, "id": "{number:010x}{seq:08x}", "seq": {seq}}}\n'
        )
    with open(os.path.join(path, "messages.jsonl"), "w", encoding="ascii") as file:
        file.writelines(lines)
    with open(os.path.join(path, "session.json"), "w", encoding="ascii") as file:
        file.write(
            f'{{"version": "1.0", "conversation_id": "{name}", "conversation_type": "{TYPES[number % 4]}", '
            f'"title": "{" ".join(drawn[:5])}", "status": "{STATUSES[number // 4 % 4]}", '
            f'"created_at": "{second}.000Z", '
            f'"last_active": "{second}.{len(lengths):03}Z", "context_summary": "{" ".join(drawn[5:25])}", '
            f'"continuation": {{"tool": "{TOOLS[number % 3]}", "session_id": "s{number}"}}}}\n'
        )
    return size


def run_search_corpus() -> None:
    """A synthetic history for the search benchmarks: very many messages in very many sessions, written as files.

    python -m bench search_corpus [--messages 1000000] [--sessions 20000] [--folder .cache/corpus]
    """
    parser = parser_of(run_search_corpus)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--sessions", type=int, default=20_000)
    parser.add_argument("--folder", default=os.path.join(CACHE, "corpus"))
    options = parser.parse_args()
    begin = time.perf_counter()
    size = make(options.folder, options.messages, options.sessions)
    print(f"{options.messages:,} messages, {size / 1e6:.0f} MB of text, in {time.perf_counter() - begin:.0f} s")


def run_search() -> None:
    """Search over a million messages: building the index, its size, queries in a warm process and in cold ones.

    python -m bench search [--messages 1000000] [--sessions 20000] [--folder .cache/corpus] [--queries 200]
        [--rounds 15]

    The synthetic history (`bench search_corpus`) is written once and kept in --folder; the index is in `FOLDER-home`.
    """
    parser = parser_of(run_search)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--sessions", type=int, default=20_000)
    parser.add_argument("--folder", default=os.path.join(CACHE, "corpus"))
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--keep", action="store_true", help="use the existing index, do not rebuild it")
    options = parser.parse_args()
    size = make(options.folder, options.messages, options.sessions)
    home = prepared(options.folder, keep=options.keep)
    print(f"{options.messages:,} messages, {options.sessions:,} sessions, {size / 1e6:.0f} MB of text; {_load()}\n")
    with at_home(home):
        search = Stores(home).search()
        if not options.keep:
            print_table(("what", "measured", "target"), built(search, options.messages, size))
        warm(search, options.queries)
    small = f"{options.folder}-{SMALL[0]}"
    make(small, *SMALL)
    processes(home, prepared(small, keep=True), options.rounds)


def prepared(folder: str, *, keep: bool) -> str:
    """Return a home in which this history is a known workspace."""
    home = f"{folder}-home"
    if not keep:
        shutil.rmtree(home, ignore_errors=True)
    os.makedirs(home, exist_ok=True)
    with at_home(home):
        remember_workspace(os.path.abspath(folder))
        if keep:
            Stores(home).search().refresh(patient=True)
    return home


def built(search: Search, messages: int, size: int) -> list[tuple[str, str, str]]:
    """Build the list of sessions, the keywords and the vectors once each; return the rows of the report."""
    begin = time.perf_counter()
    search._listing.refresh()
    listed, spent = time.perf_counter(), time.process_time()
    search.refresh(meaning=False)
    worded, spent_on_words = time.perf_counter(), time.process_time() - spent
    before = search.status()
    search.refresh(patient=True)
    done, spent_on_all = time.perf_counter(), time.process_time() - spent
    after = search.status()
    both = messages / (done - listed)
    return [
        ("list of sessions (before any search)", f"{listed - begin:.1f} s", ""),
        ("keywords", f"{messages / (worded - listed):,.0f} messages/s ({worded - listed:.1f} s)", "≥ 25,000"),
        ("  CPU time", f"{spent_on_words:.1f} s", ""),
        ("keywords and vectors", f"{both:,.0f} messages/s ({done - listed:.1f} s)", "≥ 8,000"),
        ("  CPU time", f"{spent_on_all:.1f} s", ""),
        ("size of the keywords", f"{before.bytes['keywords'] / size:.2f} × the text", "≤ 1.0"),
        ("size of the vectors", f"{after.bytes['vectors'] / messages:.0f} bytes per message", ""),
        ("messages with a vector", f"{after.embedded:,}", f"{messages:,}"),
    ]


def questions(count: int) -> dict[str, list[str]]:
    """Return queries as people type them, by kind."""
    every = words()[0].tolist()
    chance = random.Random(3)
    english = [word for word in every[300:9_000] if word.isalpha()]
    names = every[-200_000:]
    return {
        "two words": [" ".join(chance.sample(english, 2)) for _ in range(count)],
        "a question": [
            f"how did the {chance.choice(english)} {chance.choice(english)} of our {chance.choice(english)} "
            f"change after {chance.choice(english)}?"
            for _ in range(count)
        ],
        "an identifier": [chance.choice(names) for _ in range(count)],
        "a phrase": [f'"{chance.choice(english)} the" {chance.choice(english)}' for _ in range(count)],
        "with filters": [
            f"tool:claude type:debug after:2025-01 {' '.join(chance.sample(english, 2))}" for _ in range(count)
        ],
    }


def warm(search: Search, count: int) -> None:
    """Time queries in one process, by words alone and by words and meaning alternately; none is repeated."""
    rows = []
    for kind, asked in questions(count + WARM_UP).items():
        seconds: dict[bool, list[float]] = {True: [], False: []}
        for number, text in enumerate(asked):
            for exact in (True, False) if number % 2 else (False, True):
                begin = time.perf_counter()
                search.search(Query(text, limit=10, exact=exact))
                seconds[exact].append((time.perf_counter() - begin) * 1000)
                time.sleep(PAUSE)
        cells = [_points(seconds[exact][WARM_UP:]) for exact in (True, False)]
        rows.append((kind, *cells))
    begin = time.perf_counter()
    for _ in range(20):
        search.refresh()
    print(f"Warm, {count} new queries per kind, ms p50 / p95 ({_load()}):\n")
    print_table(("query", "words (≤ 20 / ≤ 60)", "words and meaning (p95 ≤ 60)"), rows)
    print(f"of that, checking for changes: {(time.perf_counter() - begin) / 20 * 1000:.1f} ms\n")


def _points(values: list[float]) -> str:
    ordered = sorted(values)
    return f"{statistics.median(ordered):.1f} / {ordered[len(ordered) * 19 // 20]:.1f}"


def processes(home: str, small: str, rounds: int) -> None:
    """Compare whole processes with a bare start, interleaved."""
    python = environment("bench-search", "--force-reinstall", "--no-deps", REPO, renew=True)
    environment("bench-search", "msgspec", "numpy", "tantivy", renew=True)
    program = os.path.join(os.path.dirname(python), "cortext")
    commands = {
        "search": [program, "search", "history", "settings"],
        "search --exact": [program, "search", "history", "settings", "--exact"],
        "list --limit 20": [program, "list", "--limit", "20"],
    }
    contenders: dict[str, Callable[[int], float]] = {BARE: cold([python, "-c", "pass"], home, home)}
    contenders |= {name: cold(command, home, home) for name, command in commands.items()}
    contenders["list --limit 20, few messages"] = cold(commands["list --limit 20"], small, small)
    for contend in contenders.values():
        contend(0)
        contend(0)
    seconds = in_turns(contenders, rounds)
    targets = {"search": "≤ 300 beyond", "search --exact": "≤ 120 beyond"}
    rows = []
    for name, needed in seconds.items():
        beyond = spread([(ours - bare) * 1000 for ours, bare in zip(needed, seconds[BARE], strict=True)])
        whole = spread([value * 1000 for value in needed]).show("{:.0f}")
        rows.append((name, whole, beyond.show("{:.0f}") if name != BARE else "", targets.get(name, "")))
    few, many = seconds["list --limit 20, few messages"], seconds["list --limit 20"]
    ratio = spread([ours / theirs for ours, theirs in zip(many, few, strict=True)])
    rows.append(("list: very many vs few", "", ratio.show(), "≤ 2"))
    print(f"Cold processes, {rounds} interleaved rounds: median (middle half; all), ms ({_load()}):\n")
    print_table(("command", "whole", "beyond the bare start", "target"), rows)


def _load() -> str:
    return f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"


def run_search_peers() -> None:
    """Search compared with two peers on the same data: fast-resume (Claude Code transcripts) and llm (its database).

    python -m bench search_peers [--sessions 500] [--messages 40] [--rounds 7]

    Reported: the time until everything is searchable for the first time, and a query in a cold process.
    """
    options = arguments(run_search_peers, sessions=500, messages=40, rounds=7)
    python = environment("bench-search", "--force-reinstall", "--no-deps", REPO, renew=True)
    environment("bench-search", "msgspec", "numpy", "tantivy", renew=True)
    ours = os.path.join(os.path.dirname(python), "cortext")
    peers = os.path.dirname(environment("bench-search-peers", "fast-resume", "llm"))
    talk = said(options.sessions, options.messages)
    with work_folder() as base:
        home = os.path.join(base, "home")
        transcripts(os.path.join(home, ".claude", "projects", "-work"), talk)
        lines, database = os.path.join(base, "talk.jsonl"), os.path.join(base, "logs.db")
        with open(lines, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(session) + "\n" for session in talk)
        asked = "history"
        commands = {
            "cortext search": [ours, "search", asked, "--limit", "10"],
            "cortext search --exact": [ours, "search", asked, "--limit", "10", "--exact"],
            "fast-resume --no-refresh": [os.path.join(peers, "fr"), "--list", "--limit", "10", "--no-refresh", asked],
            "fast-resume": [os.path.join(peers, "fr"), "--list", "--limit", "10", asked],
            "llm logs -q": [os.path.join(peers, "llm"), "logs", "list", "-n", "10", "-q", asked, "-d", database],
        }
        first = [
            ("cortext import", timed([ours, "import"], home)),
            ("cortext search, the first time (keywords and vectors)", timed(commands["cortext search"], home)),
            ("fast-resume --rebuild", timed([os.path.join(peers, "fr"), "--rebuild", "--list", "--limit", "1"], home)),
            (
                "llm: insert into its database",
                timed([os.path.join(peers, "python"), "-c", FILL_LLM, database, lines], home),
            ),
        ]
        count = sum(map(len, talk))
        print(f"{len(talk):,} sessions, {count:,} messages; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores\n")
        print_table(("first", "s"), [(name, f"{seconds:.2f}") for name, seconds in first])
        contenders = {BARE: cold([python, "-c", "pass"], home, home)}
        contenders |= {name: cold(command, home, home) for name, command in commands.items()}
        for contend in contenders.values():
            contend(0)
        seconds = in_turns(contenders, options.rounds)
        rows = [(name, spread([value * 1000 for value in needed]).show("{:.0f}")) for name, needed in seconds.items()]
        print_table(("a query, cold process", "ms: median (middle half; all)"), rows)
        shutil.rmtree(home)


def said(sessions: int, messages: int) -> list[list[str]]:
    """Return the texts of the sessions."""
    every, cumulative = words()
    chance = np.random.default_rng(5)
    return [
        [
            " ".join(every[np.searchsorted(cumulative, chance.random(int(size)))])
            for size in chance.integers(5, 80, messages)
        ]
        for _ in range(sessions)
    ]


def transcripts(folder: str, talk: list[list[str]]) -> None:
    """Write the same texts as Claude Code transcripts."""
    os.makedirs(folder)
    for number, session in enumerate(talk):
        key = str(uuid.uuid5(uuid.NAMESPACE_OID, str(number)))
        parent = None
        with open(os.path.join(folder, f"{key}.jsonl"), "w", encoding="utf-8") as file:
            for index, text in enumerate(session):
                role = ("user", "assistant")[index % 2]
                record_id = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{number} {index}"))
                content: object = text if role == "user" else [{"type": "text", "text": text}]
                record = {
                    "parentUuid": parent, "isSidechain": False, "userType": "external", "cwd": "/work",
                    "sessionId": key, "version": "2.0.0", "type": role,
                    "message": {"role": role, "content": content}, "uuid": record_id,
                    "timestamp": f"2026-01-{1 + number % 28:02}T{index // 60 % 24:02}:{index % 60:02}:00.000Z",
                }  # fmt: skip
                file.write(json.dumps(record) + "\n")
                parent = record_id


def timed(command: list[str], home: str) -> float:
    """Return the seconds of a whole process."""
    begin = time.perf_counter()
    done = subprocess.run(command, cwd=home, env=home_environment(home), capture_output=True, check=False)
    if done.returncode not in (0, 1):
        raise SystemExit(f"{command}: {done.stderr.decode('utf-8', 'replace')}")
    return time.perf_counter() - begin


class RandomModel:
    """Random vectors, as long as those of the built-in model."""

    name = "random"
    dimension = DIMENSION
    quick = True
    near, far, sure = 0.1, 0.25, 0.45

    def __init__(self) -> None:
        self._chance = np.random.default_rng(0)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return a vector per text."""
        made = self._chance.standard_normal((len(texts), DIMENSION), dtype=np.float32)
        return np.asarray(made / np.linalg.norm(made, axis=1, keepdims=True), dtype=np.float32)


def make_vectors(folder: str, count: int, *, merge: bool) -> None:
    """Make `count` vectors of invented sessions, as an index update does."""
    state = IndexState(folder)
    meaning = Meaning(folder, state, RandomModel.name)
    os.makedirs(meaning.folder)
    making = _Making(meaning, RandomModel())
    for number in range(count // SESSION):
        state.begin()
        key = state.new_key("store", f"session-{number}")
        for seq in range(SESSION):
            making.add(owner(key, seq), "")
        state.commit()
        making.reached(key, SESSION)
    making.write()
    if merge:
        meaning.merge()
    state.close()


def peak() -> float:
    """Return the peak memory of this process in MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform == "linux" else 1024**2)


def measured(count: int, what: int) -> float:
    """Return the memory a new process uses beyond what it has after its imports, in MB."""
    command = [sys.executable, "-m", "bench", "vectors_memory", "--vectors", str(count), "--only", str(what)]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def run_vectors_memory() -> None:
    """Peak memory of making vectors and of merging their files, each in a separate process.

    python -m bench vectors_memory [--vectors 200000]
    """
    options = arguments(run_vectors_memory, vectors=200_000, only=0)
    if options.only:
        RandomModel().embed([""])
        before = peak()
        with tempfile.TemporaryDirectory() as folder:
            make_vectors(folder, options.vectors, merge=options.only == MERGED)
        print(peak() - before)
        return
    size = options.vectors * DIMENSION / 1e6
    rows = [
        ("made, in files of 65,536", f"{measured(options.vectors, MADE):.0f} MB"),
        ("and merged into one, in clusters", f"{measured(options.vectors, MERGED):.0f} MB"),
    ]
    print(f"\n{options.vectors:,} vectors, {size:.0f} MB on disk; clusters from {vectors.WORTH:,} on.\n")
    print_table(("what", "peak beyond the start"), rows)
