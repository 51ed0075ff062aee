"""Index updates that are killed, and several readers next to one writer.

python -m tests.index.killed [--kills 100] [--messages 100000]     the long versions
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from cortext.model.message import Message
from cortext.model.query import Query
from cortext.model.session import Session
from cortext.store.files.workspace import WorkspaceStore
from tests.index.world import World

ROOT = Path(__file__).parents[2]
ASKED = ("heron river", "retry budget", "engine number", "word77*", "kettle")
_COMMON = ["heron", "river", "retry", "budget", "engine", "number", "kettle", "window", "paper", "cloud"]
WORDS = [*_COMMON, *(f"{first}{second}" for first in _COMMON for second in _COMMON), *(f"word{n}" for n in range(200))]
UPDATE = "from cortext.wiring.stores import Stores; Stores().search().refresh(patient=True)"
READER = """
import sys, time
from cortext.model.query import Query
from cortext.wiring.stores import Stores
search = Stores().search()
asked = 0
while not __import__("os").path.exists(sys.argv[1]):
    for text in ("heron river", "retry budget engine", "nothing of the kind"):
        for found in search.search(Query(text, limit=5)).hits:
            assert found.matches and found.matches[0].snippet
        asked += 1
print(asked)
"""


def _fill(world: World, rng: random.Random, sessions: int, messages: int) -> None:
    for number in range(sessions):
        name = f"s{number}-{rng.randrange(10**9)}"
        world.store.create(Session(id=name, title=" ".join(rng.sample(WORDS, 2))))
        world.store.append(name, *(_message(rng) for _ in range(messages)))


def _message(rng: random.Random) -> Message:
    text = " ".join([*rng.choices(WORDS, k=12), f"word{rng.randrange(1000)}"])
    return Message(role=rng.choice(("user", "assistant")), content=text)


def run(folder: Path, kills: int, seed: int) -> int:
    """Kill an update again and again while the sessions change. Return how many were killed before they ended.

    After each kill, the results in a new process are compared with those of an index built from scratch.
    """
    rng = random.Random(seed)
    world = World(folder)
    _fill(world, rng, 10, 60)
    os.environ["CORTEXT_WORKSPACE"] = str(world.root)
    begin = time.monotonic()
    subprocess.run([sys.executable, "-c", UPDATE], cwd=world.root, check=True)
    takes = time.monotonic() - begin
    died = 0
    for _ in range(kills):
        names = [session.id for session in world.store.sessions()]
        world.store.append(rng.choice(names), *(_message(rng) for _ in range(rng.randrange(1, 120))))
        if rng.random() < 0.4:
            _fill(world, rng, 1, rng.randrange(1, 200))
        if rng.random() < 0.2:
            world.store.delete(rng.choice(names))
        begin = time.monotonic()
        with subprocess.Popen([sys.executable, "-c", UPDATE], cwd=world.root) as updating:
            try:
                updating.wait(rng.uniform(0.3, 1.1) * takes)
                takes = time.monotonic() - begin  # so that the next one is killed in time on a busy machine
            except subprocess.TimeoutExpired:
                died += 1
            updating.kill()
        _same_as_new(world)
    return died


def _same_as_new(world: World) -> None:
    here = _everything(world)
    kept = os.environ.get("XDG_CACHE_HOME")
    with tempfile.TemporaryDirectory() as cache:
        os.environ["XDG_CACHE_HOME"] = cache
        try:
            rebuilt = _everything(world)
        finally:
            del os.environ["XDG_CACHE_HOME"]
            if kept is not None:
                os.environ["XDG_CACHE_HOME"] = kept
    for what, ours, theirs in zip(("documents", "vectors", "by words", "by meaning"), here, rebuilt, strict=True):
        assert ours == theirs, f"{what}: {ours} here, {theirs} in a new index"


def _everything(world: World) -> tuple[int, int, list[set[tuple[str, int]]], list[set[str]]]:
    """Return the number of documents and vectors, the messages found by words and the sessions found by meaning.

    Scores are left out: while tantivy still counts deleted documents, they differ in the last digits.
    """
    search = world.search()
    search.refresh(patient=True)
    there = search._engine.generation()
    assert there is not None
    exact = [
        {
            (found.session.id, found.matches[0].seq)
            for found in search.messages(Query(text, limit=5_000, exact=True)).hits
        }
        for text in ASKED
    ]
    meant = [{found.session.id for found in search.search(Query(text, limit=500)).hits} for text in ASKED]
    alive = {key for key, _ in there.state.connection.execute("SELECT key, 0 FROM session")}
    vectors = there.meaning(search.status().model).vectors()
    owners = [number for segment in vectors.segments for number in segment.owners.tolist() if number >> 32 in alive]
    assert len(owners) == len(set(owners))  # no message has two
    return there.keywords.searcher().num_docs, len(owners), exact, meant


def crowd(folder: Path, messages: int, readers: int) -> int:
    """Query from several processes while one writes and indexes. Return the smallest number of queries of any."""
    world = World(folder)
    rng = random.Random(5)
    _fill(world, rng, 5, 20)
    os.environ["CORTEXT_WORKSPACE"] = str(world.root)
    world.search().refresh()
    stop = folder / "stop"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", READER, str(stop)], cwd=world.root, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for _ in range(readers)
    ]
    try:
        store = WorkspaceStore(str(world.root))
        for number in range(max(1, messages // 500)):
            store.create(Session(id=f"crowd-{number}"))
            store.append(f"crowd-{number}", *(_message(rng) for _ in range(500)))
            world.search().refresh()
    finally:
        stop.touch()
        ended = [process.communicate(timeout=60) for process in processes]
    for process, (_, error) in zip(processes, ended, strict=True):
        assert process.returncode == 0, error.decode("utf-8", "replace")
    search = world.search()
    assert search.refresh().is_current  # no process holds the lock
    status = search.status()
    assert not status.behind
    assert status.messages == 100 + max(1, messages // 500) * 500
    return min(int(out) for out, _ in ended)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--messages", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HOME"] = os.path.join(folder, "one")
        died = run(Path(folder) / "kills", options.kills, options.seed)
        print(f"{options.kills} updates, {died} killed: the results match those of a new index every time")
        os.environ["HOME"] = os.path.join(folder, "two")
        asked = crowd(Path(folder) / "crowd", options.messages, 4)
        print(f"4 readers made at least {asked:,} queries each while {options.messages:,} messages arrived: no errors")


if __name__ == "__main__":
    main()
