"""Noticing changes: by `cortext watch`, and by the list of sessions."""

from __future__ import annotations

import os
import subprocess
import time
import uuid
from functools import partial
from typing import IO

from bench.commands import Transcript, fill
from bench.common import (
    arguments,
    at_home,
    environment,
    home_environment,
    installed,
    print_table,
    spread,
    texts,
    work_folder,
)
from cortext.index.refresh import StoreSource
from cortext.index.sessions import SessionIndex
from cortext.model.query import Query
from cortext.store.files.workspace import WorkspaceStore
from cortext.wiring.stores import Stores

IDLE_TARGET = 1.0  # percent of a core
FOUND_TARGET = 2.0  # seconds
FOLDERS = 100  # projects that the transcripts are spread over
PATIENCE = 60.0
LINE = '{"role": "user", "content": "from elsewhere", "timestamp": "2020-01-01T00:00:00Z"}\n'


def run_watch() -> None:
    """`cortext watch` with many transcripts: what it costs when nothing happens, and how soon a new message is found.

    python -m bench watch [--transcripts 10000] [--seconds 60] [--rounds 10]

    The idle share is processor time (of all its threads) per second of wall time, after everything was imported. A
    round appends a message to a transcript, waits until it is captured, and asks the search until it finds the
    message's word. Exits with 1 if the share is over 1 % of a core or the median over 2 s.
    """
    options = arguments(run_watch, transcripts=10_000, seconds=60, rounds=10)
    _, script = installed()
    environment("bench-faces", "watchfiles", renew=True)
    with work_folder() as base:
        home = os.path.join(base, "home")
        talks = write_transcripts(home, options.transcripts)
        variables = home_environment(home)
        started = time.perf_counter()
        process = subprocess.Popen([script, "watch", "--json"], env=variables, cwd=base, stdout=subprocess.PIPE)
        try:
            assert process.stdout is not None
            process.stdout.readline()  # the first report: everything is imported
            first = time.perf_counter() - started
            idle = share(process.pid, options.seconds)
            with at_home(home):
                Stores().search().search(Query("anything", limit=1))  # builds the index
                measured = [until_found(talks[number % len(talks)], process.stdout) for number in range(options.rounds)]
            peak = peak_memory(process.pid)
        finally:
            process.terminate()
            code = process.wait(60)
            if process.stdout is not None:
                process.stdout.close()
    captured, found = spread([pair[0] for pair in measured]), spread([pair[1] for pair in measured])
    missed = idle > IDLE_TARGET or found.median > FOUND_TARGET or code != 0
    print(f"\n{options.transcripts:,} transcripts; the first import took {first:.0f} s; exit code {code}.\n")
    rows = [
        ("idle, % of a core", f"{idle:.2f}", f"≤ {IDLE_TARGET:g}"),
        ("a new message is captured after, s", captured.show("{:.2f}"), ""),
        ("the search finds it after, s", found.show("{:.2f}"), f"≤ {FOUND_TARGET:g}"),
        ("peak memory, MB", f"{peak:.0f}", ""),
    ]
    print_table(("", "measured", "target"), rows)
    raise SystemExit(1 if missed else 0)


def write_transcripts(home: str, count: int) -> list[Transcript]:
    """Write this many short transcripts of Claude Code; return a few of them."""
    said = texts(4)
    talks: list[Transcript] = []
    projects = os.path.join(home, ".claude", "projects")
    for number in range(count):
        folder = os.path.join(projects, f"-work-{number % FOLDERS}")
        key = str(uuid.uuid4())
        talk = Transcript(os.path.join(folder, f"{key}.jsonl"), key, f"/work/{number % FOLDERS}")
        talk.say(said)
        if len(talks) < FOLDERS:
            talks.append(talk)
    return talks


def share(process: int, seconds: int) -> float:
    """Return the processor time that a process uses in so many seconds, in percent of a core."""
    before, started = processor_time(process), time.monotonic()
    time.sleep(seconds)
    return (processor_time(process) - before) / (time.monotonic() - started) * 100


def processor_time(process: int) -> float:
    with open(f"/proc/{process}/stat", encoding="utf-8") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_memory(process: int) -> float:
    with open(f"/proc/{process}/status", encoding="utf-8") as file:
        line = next(line for line in file if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024


def until_found(talk: Transcript, watcher: IO[bytes]) -> tuple[float, float]:
    """Append a message with a word of its own; return the seconds until it is captured, and until it is found."""
    word = f"heron{uuid.uuid4().hex[:12]}"
    talk.say([f"Remember this word: {word}."])
    started = time.perf_counter()
    watcher.readline()
    captured = time.perf_counter() - started
    while time.perf_counter() - started < PATIENCE:
        if any(word in str(hit) for hit in Stores().search().search(Query(word, limit=1, exact=True)).hits):
            return captured, time.perf_counter() - started
        time.sleep(0.05)  # the interval of asking
    return captured, PATIENCE


def run_noticing() -> None:
    """The cost of noticing that another program changed a session: checking the files of every session.

    python -m bench noticing [--few 400] [--many 1000] [--rounds 15]
    """
    options = arguments(run_noticing, few=400, many=1_000, rounds=15)
    rows: list[tuple[str, ...]] = []
    with work_folder() as base:
        for count in (options.few, options.many):
            folder = os.path.join(base, f"folder-{count}")
            fill(folder, count)
            store = WorkspaceStore(folder)
            source = StoreSource(folder, "workspace", store.control, partial(WorkspaceStore, folder))
            index = SessionIndex(os.path.join(base, f"cache-{count}"))
            index.refresh([source])
            seconds = []
            for _ in range(options.rounds):
                start = time.perf_counter()
                index.refresh([source])
                seconds.append(time.perf_counter() - start)
            oldest = index.rows([folder])[-1]
            with open(os.path.join(oldest.path, ".session", "messages.jsonl"), "a", encoding="utf-8") as log:
                log.write(LINE)
            index.refresh([source])
            noticed = index.named([(folder, oldest.id)])[folder, oldest.id].message_count > oldest.message_count
            index.close()
            each = spread([second / count * 1e6 for second in seconds]).show("{:.1f}")
            whole = spread([second * 1000 for second in seconds]).show("{:.1f}")
            rows.append((f"{count:,}", whole, each, "noticed" if noticed else "NOT NOTICED"))
    print(f"\nOne check with nothing changed, {options.rounds} rounds: median (middle half; all rounds).\n")
    print_table(("sessions", "ms", "µs per session", "a line appended to the oldest"), rows)
