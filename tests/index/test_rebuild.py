"""An index rebuild that is interrupted at any step continues where it stopped; the old index answers meanwhile.

A step is an atomic operation: a file replaced or removed, a tantivy commit, a commit of the state. A rebuild is
interrupted before each of its steps in turn.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from unittest import mock

import pytest

from cortext.errors import WriteFailed
from cortext.index.search import generation, keyword_writer, meaning, state, update, vectors
from cortext.index.search.keyword_writer import KeywordWriter
from cortext.io import durable
from cortext.model.query import Query
from tests.index.world import World, answers

ROOT = Path(__file__).parents[2]
ASKED = ("heron river", "engine number", '"stands still"', "bird*")
SESSIONS = 3
STEPS = (
    (durable, "replace_file"),
    (durable, "remove"),
    (keyword_writer.KeywordWriter, "commit"),
    (state.IndexState, "commit"),
)
# Runs `cortext index rebuild` in a process of its own, which sends itself a signal before one of the steps.
CHILD = """
import os, sys
from cortext.faces.cortext.main import main
from tests.index import test_rebuild
number, step = int(sys.argv[1]), int(sys.argv[2])
sys.argv[1:] = ["index", "rebuild"]
with test_rebuild.in_small_steps(), test_rebuild.at_step(step, lambda: os.kill(os.getpid(), number)):
    main()
"""


@contextmanager
def in_small_steps() -> Iterator[None]:
    """Commit every session separately, and use clusters for even a few vectors."""
    with (
        mock.patch.object(update, "AT_RISK", -1.0),
        mock.patch.object(meaning, "AT_RISK", -1.0),
        mock.patch.object(meaning, "MOST_FILES", 2),
        mock.patch.object(vectors, "WORTH", 4),
    ):
        yield


@contextmanager
def at_step(wanted: int, do: Callable[[], None]) -> Iterator[list[str]]:
    """Call `do` before the step with this number, counted from 0."""
    seen: list[str] = []

    def counted(name: str, real: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **named: object) -> object:
            seen.append(name)
            if len(seen) == wanted + 1:
                do()
            return real(*arguments, **named)

        return call

    with ExitStack() as patches:
        for where, name in STEPS:
            patches.enter_context(mock.patch.object(where, name, counted(name, getattr(where, name))))
        yield seen


def _interrupt() -> None:
    raise KeyboardInterrupt


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    for number in range(SESSIONS):
        made.talk(f"s{number}", f"The heron number {number} stands still", "A bird of the river.", f"Engine {number}")
    return made


def _folders(world: World) -> set[str]:
    return {path.name for path in world.cache().iterdir() if path.is_dir()}


def _next(world: World) -> str:
    path = world.cache() / "next"
    return path.read_text(encoding="ascii").strip() if path.exists() else ""


@pytest.mark.req("FIND-03", "LOOK-02")
def test_a_rebuild_interrupted_before_any_step_continues(world: World) -> None:
    before = answers(world.search(), *ASKED)
    assert all(before)
    done, step = False, 0
    where: list[str] = []
    while not done:
        old = (world.cache() / "current").read_text(encoding="ascii").strip()
        with (
            in_small_steps(),
            mock.patch.object(KeywordWriter, "add", autospec=True, side_effect=KeywordWriter.add) as added,
        ):
            with at_step(step, _interrupt) as where:
                try:
                    world.search().rebuild()
                    done = True
                except KeyboardInterrupt:
                    pass
            label = f"{step}: {where[step] if step < len(where) else 'the end'}"
            now = (world.cache() / "current").read_text(encoding="ascii").strip()
            begun = _next(world)
            assert len(world.find("heron", exact=True)) == SESSIONS, label
            if now == old and not done:
                world.search().rebuild()
                assert not begun or (world.cache() / "current").read_text(encoding="ascii").strip() == begun, label
                # Only the session in progress is read again.
                assert added.call_count <= (SESSIONS + 1 if begun else 2 * SESSIONS), label
        assert answers(world.search(), *ASKED) == before, label
        current = world.cache() / (world.cache() / "current").read_text(encoding="ascii").strip()
        assert len(list(current.glob("vectors/*/centroids-*.npy"))) == 1, label  # the last thing that it writes
        step += 1
    assert step > 20  # it was interrupted at every one


@pytest.mark.req("FIND-03", "LOOK-02")
@pytest.mark.parametrize(("number", "step"), [(9, 3), (9, 10), (9, 19), (2, 7), (2, 15)])
def test_a_rebuild_killed_or_stopped_by_ctrl_c_is_continued(world: World, number: int, step: int) -> None:
    before = answers(world.search(), *ASKED)
    command = [sys.executable, "-c", CHILD, str(number), str(step)]
    environment = os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    ended = subprocess.run(command, cwd=world.root, env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == (-9 if number == signal.SIGKILL else 130), ended.stderr
    assert "Traceback" not in ended.stderr
    begun = _next(world)
    assert begun
    assert answers(world.search(), *ASKED) == before
    command = [sys.executable, "-m", "cortext.faces.cortext.main", "index", "rebuild"]
    again = subprocess.run(command, cwd=world.root, env=environment, capture_output=True, text=True, check=False)
    assert again.returncode == 0, again.stderr
    assert "up to date" in again.stdout
    assert _folders(world) == {begun}
    assert answers(world.search(), *ASKED) == before


@pytest.mark.req("FIND-03", "LOOK-02")
@pytest.mark.parametrize("most", [2_000, 60_000, 120_000])
def test_a_full_disk_is_reported_and_the_rebuild_continues(world: World, most: int) -> None:
    for number in range(40):
        world.talk(f"more-{number}", *(f"heron {number} word{number}x{line}" for line in range(10)))
    before = answers(world.search(), *ASKED)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, limits[1]))  # no file may grow beyond this
    try:
        with pytest.raises(WriteFailed) as caught:
            world.search().rebuild()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert caught.value.kept
    begun = _next(world)
    assert answers(world.search(), *ASKED) == before
    world.search().rebuild()
    folders = _folders(world)
    assert len(folders) == 1
    assert not begun or folders == {begun}
    assert answers(world.search(), *ASKED) == before


@pytest.mark.req("FIND-03")
@pytest.mark.parametrize("damaged", ["state.db", "keywords/meta.json", "vectors/*/*.vectors"])
def test_a_half_built_index_that_was_damaged_is_recreated(world: World, damaged: str) -> None:
    before = answers(world.search(), *ASKED)
    with (
        in_small_steps(),
        mock.patch.object(meaning.Meaning, "merge", side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        world.search().rebuild()
    paths = list((world.cache() / _next(world)).glob(damaged))
    assert paths
    for path in paths:
        path.write_bytes(b"")
    with in_small_steps():
        world.search().rebuild()
    assert len(_folders(world)) == 1
    assert not _next(world)
    assert answers(world.search(), *ASKED) == before


@pytest.mark.req("FIND-03")
def test_changes_during_an_interruption_are_indexed_without_the_list(world: World) -> None:
    with (
        mock.patch.object(meaning.Meaning, "update", side_effect=KeyboardInterrupt),
        pytest.raises(KeyboardInterrupt),
    ):
        world.search().rebuild()
    for path in world.cache().parent.glob("catalogue.db*"):
        path.unlink()
    log = next(world.root.rglob("s1/.session/messages.jsonl"))
    log.write_text(log.read_text(encoding="utf-8").replace("heron", "ostrich"), encoding="utf-8")
    world.store.delete("s2")
    world.search().rebuild()
    assert world.find("ostrich", exact=True) == ["s1"]
    assert set(world.find("heron", exact=True)) == {"s0"}


def test_a_writer_killed_by_a_full_disk_is_not_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    died = ValueError("An error occurred in a thread: 'An index writer was killed.'")
    generation.check_space(died, str(tmp_path))  # there is free space: something else is wrong
    monkeypatch.setattr(generation, "ROOM", 1 << 62)
    with pytest.raises(WriteFailed):
        generation.check_space(died, str(tmp_path))


@pytest.mark.req("FIND-03", "FIND-02")
def test_without_a_model_there_is_nothing_left_to_embed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    assert world.find("heron")  # with vectors
    monkeypatch.setenv("CORTEXT_SEARCH_MODEL", "none")
    search = world.search()
    assert {hit.session.id for hit in search.search(Query("heron")).hits} == {
        f"s{number}" for number in range(SESSIONS)
    }
    assert not search.refresh().has_more
    search.rebuild()
    status = world.search().status()
    assert (status.embedded, status.behind) == (0, False)
    assert len(world.find("heron")) == SESSIONS
