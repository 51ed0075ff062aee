"""Search over a million messages: building the index, its size, queries in a warm process and in cold ones.

python -m bench.search [--messages 1000000] [--sessions 20000] [--folder .cache/corpus] [--queries 200] [--rounds 15]

The synthetic history (bench/search_corpus.py) is written once and kept in --folder; the index is in `FOLDER-home`.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import statistics
import time
from collections.abc import Callable

from bench.common import CACHE, REPO, environment, in_turns, print_table, spread
from bench.faces import BARE, at_home, cold
from bench.search_corpus import make, words
from cortext.index.query import Query
from cortext.services.library.search import Search
from cortext.services.projects.workspaces import remember_workspace
from cortext.wiring.stores import Stores

SMALL = (10_000, 200)  # messages and sessions of the small history that lists are compared with
WARM_UP = 20
PAUSE = 0.02  # seconds between queries: of a real-time process that never waits, Linux stops 50 ms in every second


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
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


if __name__ == "__main__":
    main()
