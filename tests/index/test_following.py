"""The search index follows the files incrementally, and survives being deleted or killed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest

from cortext.index.search import engine, keyword_writer, rank, reading, update
from cortext.model.message import Message
from cortext.model.query import Query
from cortext.model.session import Change, Session
from tests.index import killed
from tests.index.world import World, answers

ROOT = Path(__file__).parents[2]
ASKED = ("heron river", "retry budget", '"stands still"', "bird*", "engine")


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    made.talk("birds", "Which bird stands still in the river?", "A heron.")
    made.talk("retry", "What is the retry budget?", "Three tries.")
    return made


@pytest.mark.req("FIND-03")
def test_every_kind_of_change_is_seen_by_the_next_query(world: World) -> None:
    assert world.find("heron") == ["birds"]
    world.talk("birds", "And the kingfisher?", "It dives.")
    assert world.find("kingfisher", exact=True) == ["birds"]
    world.store.update("retry", Change(title="About the walrus"))
    assert world.find("walrus", exact=True) == ["retry"]
    world.store.update("retry", Change(title="About nothing"))
    assert world.find("walrus", exact=True) == []
    trashed = world.store.delete("birds")
    assert world.find("kingfisher", exact=True) == []
    world.store.restore(trashed.key)
    assert world.find("kingfisher", exact=True) == ["birds"]


@pytest.mark.req("FIND-03")
def test_what_others_write_to_a_log_is_seen(world: World) -> None:
    assert world.find("ostrich", exact=True) == []
    log = next(world.root.rglob("birds/.session/messages.jsonl"))
    with open(log, "a", encoding="utf-8") as file:
        file.write('{"role": "user", "content": "an ostrich by hand"}\n')
    assert world.find("ostrich", exact=True) == ["birds"]
    text = log.read_text(encoding="utf-8")
    log.write_text(text.replace("heron", "stork").replace("ostrich", "pelican"), encoding="utf-8")  # in place
    assert world.find("ostrich heron", exact=True) == []
    assert world.find("stork pelican", exact=True) == ["birds"]
    log.write_text(text.split("\n")[0] + "\n", encoding="utf-8")  # shorter
    assert world.find("stork pelican", exact=True) == []
    assert world.find("bird", exact=True) == ["birds"]


@pytest.mark.req("FIND-03")
def test_only_new_messages_are_indexed(world: World) -> None:
    world.find("heron")
    with (
        mock.patch.object(update, "VERIFIED", 0),
        mock.patch.object(
            keyword_writer.KeywordWriter, "add", autospec=True, side_effect=keyword_writer.KeywordWriter.add
        ) as added,
    ):
        world.talk("birds", "And the kingfisher?")
        assert world.find("kingfisher", exact=True) == ["birds"]
        assert [[message.seq for message in call.args[2]] for call in added.call_args_list] == [[2]]
        world.find("kingfisher")
        assert added.call_count == 1


@pytest.mark.req("FIND-03")
@pytest.mark.parametrize("letters", [1, 1 << 18])
def test_large_and_small_batches_are_indexed_alike(world: World, letters: int) -> None:
    world.talk("code", "parseHttpReply calls http_reply in src/net/reply.py", "?!", title="Getting theUserName")
    world.talk("signs", "全文検索 の heron", "retries\nof the parseHttpReply", "x" * 70 + " naïve Straße")
    asked = (
        "heron",
        "parse reply",
        "user name",
        "http_reply",
        "検索",
        "naive",
        "strasse",
        '"the parseHttpReply"',
        "eHttpR",
    )
    before = answers(world.search(), *asked)
    assert all(before)
    shutil.rmtree(world.cache())
    with mock.patch.object(update, "SMALL", 0), mock.patch.object(keyword_writer, "BATCH", letters):
        assert answers(world.search(), *asked) == before
        world.talk("late", "A heron came late, said theUserName", "And went.")
        world.store.delete("retry")
        few = answers(world.search(), *asked)
    shutil.rmtree(world.cache())
    assert [[found[0] for found in each] for each in answers(world.search(), *asked)] == [
        [found[0] for found in each] for each in few
    ]


@pytest.mark.req("STORE-01", "FIND-03")
def test_a_deleted_or_damaged_index_comes_back_the_same(world: World) -> None:
    for number in range(12):
        world.talk(f"more-{number}", f"The heron number {number} of the river", "An engine, then.")
        if number % 3 == 0:
            world.find("heron")  # so that the index is built in many steps
    before = answers(world.search(), *ASKED)
    assert before[0]
    shutil.rmtree(world.cache())
    assert answers(world.search(), *ASKED) == before
    world.search().rebuild()
    assert answers(world.search(), *ASKED) == before
    for pattern, damage in (("*/state.db", b"no database"), ("*/keywords/meta.json", b"{}"), ("current", b"\xff\xfe")):
        for path in world.cache().glob(pattern):
            path.write_bytes(damage)
        assert answers(world.search(), *ASKED) == before, pattern
    for path in world.cache().glob("*/vectors/*/*.vectors"):
        path.write_bytes(b"no vectors")
    assert answers(world.search(), *ASKED) == before


@pytest.mark.req("FIND-03", "LOOK-02")
def test_an_interrupted_rebuild_continues_and_the_old_index_answers(world: World) -> None:
    before = answers(world.search(), *ASKED)
    search = world.search()
    with mock.patch.object(engine.Engine, "_embed", side_effect=KeyboardInterrupt), pytest.raises(KeyboardInterrupt):
        search.rebuild()
    assert (world.cache() / "next").exists()
    assert answers(world.search(), *ASKED) == before
    named = (world.cache() / "next").read_text(encoding="ascii")
    world.search().rebuild()
    assert (world.cache() / "current").read_text(encoding="ascii") == named
    assert not (world.cache() / "next").exists()
    assert answers(world.search(), *ASKED) == before
    assert len([path for path in world.cache().iterdir() if path.is_dir()]) == 1


@pytest.mark.req("FIND-03")
def test_a_reader_keeps_answering_during_a_rebuild(world: World) -> None:
    reader = world.search()
    before = answers(reader, *ASKED)
    world.search().rebuild()
    assert answers(reader, *ASKED) == before


def test_a_workspace_is_indexed_as_soon_as_it_is_known(world: World, tmp_path: Path) -> None:
    world.find("heron")
    other = World(tmp_path / "other")
    other.talk("far", "A heron somewhere else")
    assert set(other.find("heron", exact=True)) == {"far", "birds"}
    assert set(world.find("heron", exact=True)) == {"far", "birds"}
    # While it is not registered its sessions are hidden; once it is again, they are back.
    known = Path(os.environ["HOME"]) / ".local/share/cortext/workspaces"
    kept = known.read_text(encoding="utf-8")
    known.write_text(f"{world.root}\n", encoding="utf-8")
    assert world.find("heron", exact=True) == ["birds"]
    other.talk("farther", "One more heron")
    known.write_text(kept, encoding="utf-8")
    assert set(world.find("heron", exact=True)) == {"far", "farther", "birds"}


@pytest.mark.req("FIND-03")
def test_killing_an_update_at_random_never_changes_a_result(tmp_path: Path) -> None:
    assert killed.run(tmp_path, kills=12, seed=1) >= 3


@pytest.mark.req("FIND-03", "STORE-05")
def test_four_processes_query_while_one_writes_and_indexes(tmp_path: Path) -> None:
    assert killed.crowd(tmp_path, messages=3_000, readers=4) > 0


@pytest.mark.req("FIND-03")
def test_a_query_without_the_lock_uses_the_index_as_it_is(world: World) -> None:
    world.find("heron")
    search = world.search()
    holder = search._engine._lock(0.0)
    assert holder is not None
    with holder:
        world.talk("late", "A cassowary")
        assert world.find("heron") == ["birds"]
        assert world.find("cassowary", exact=True) == []
    assert world.find("cassowary", exact=True) == ["late"]


@pytest.mark.req("FIND-04")
def test_a_query_reads_only_the_messages_that_it_ranks_and_each_once(world: World) -> None:
    for number in range(80):
        world.talk(f"more-{number}", f"The heron number {number}", "An engine.")
    search = world.search()
    search.refresh()
    picking = reading.Picking
    with (
        mock.patch.object(picking, "picked", autospec=True, side_effect=picking.picked) as read,
        mock.patch.object(picking, "around", autospec=True, side_effect=picking.around) as shown,
    ):
        assert len(search.search(Query("heron", limit=2, per_session=1)).hits) == 2
    places = [(call.args[2], number) for call in read.call_args_list for number in call.args[4]]
    assert len(places) == len(set(places)) <= rank.BEST < 2 * 80
    assert shown.call_count == 2, "neighbours are read only for what is shown"
    with mock.patch.object(reading, "messages", side_effect=AssertionError("read a whole session")):
        assert len(search.search(Query("heron engine", limit=3)).hits) == 3


def test_a_damaged_session_is_found_by_its_readable_messages(world: World) -> None:
    world.store.create(Session(id="torn"))
    world.store.append("torn", Message(role="user", content="an albatross"), Message(role="user", content="a second"))
    log = next(world.root.rglob("torn/.session/messages.jsonl"))
    log.write_bytes(log.read_bytes()[:-20])
    assert world.find("albatross", exact=True) == ["torn"]


def test_a_new_process_finds_the_session(world: World) -> None:
    code = (
        "from cortext.model.query import Query; from cortext.wiring.stores import Stores; "
        "print(Stores().search().search(Query('heron')).hits[0].session.id)"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=world.root, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "birds"
