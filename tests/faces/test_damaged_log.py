"""A session whose own log is damaged, or was not fetched by Git LFS: every face says so, and none takes it as whole."""

from __future__ import annotations

from pathlib import Path

import pytest

from cortext.errors import DamagedData
from cortext.faces.mcp.context import Context
from cortext.faces.mcp.tools import call
from cortext.model.query import Query
from cortext.services.library.typed_search import TypedSearch
from cortext.wiring.stores import Stores
from tests.faces.pond import make_pond
from tests.index.world import World
from tests.support.cli import cortext
from tests.web.served import CLAUDE, serving, with_program

BIRDS, BOAT = "001-plan-birds", "002-debug-boat"
POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:" + b"4d" * 32 + b"\nsize 1234\n"
UNFETCHED = "a pointer of Git LFS, whose content was not fetched"
LOST = "2 places of its log cannot be read, so messages may be missing: run `cortext repair {}`"
SEARCHED = "{} damaged, so messages may be missing: `cortext doctor` says what to do."


def _spoil(folder: Path, session_id: str) -> None:
    """Make the second and the fourth message unreadable."""
    log = next(folder.glob(f"conversations/*/{session_id}/.session/messages.jsonl"))
    lines = log.read_bytes().splitlines(keepends=True)
    lines[1] = lines[3] = b'{"garb\n'
    log.write_bytes(b"".join(lines))


def _unfetch(folder: Path, session_id: str) -> Path:
    log = next(folder.glob(f"conversations/*/{session_id}/.session/messages.jsonl"))
    log.write_bytes(POINTER)
    return log


@pytest.fixture
def world(tmp_path: Path) -> World:
    made = World(tmp_path)
    made.talk(BIRDS, "Herons?", "Kingfishers.", "And bitterns?", "In the reeds.", "Thanks.", title="Birds", type="plan")
    made.talk(BOAT, "It leaks.", "Use tar.", title="Boat", type="debug")
    return made


@pytest.mark.req("STORE-06", "SESS-003c", "SESS-004a")
def test_a_resume_of_a_damaged_log_says_that_messages_may_be_missing(world: World) -> None:
    dry = ("resume", BIRDS, "--ai", "codex", "--dry-run")
    assert "cannot be read" not in cortext(*dry, cwd=world.root).out
    _spoil(world.root, BIRDS)
    note = LOST.format(BIRDS)
    assert f"note       {note}" in cortext(*dry, cwd=world.root).out
    assert note in cortext(*dry, "--json", cwd=world.root).json["warnings"]
    printed = cortext("resume", BIRDS, "--print", cwd=world.root)
    assert printed.code == 0 and f"Note: {note}." in printed.err and "In the reeds." not in printed.out
    assert cortext("resume", BIRDS, "--print", "--json", cwd=world.root).json["warnings"] == [note]
    assert f"Note: {note}." in cortext("resume", BIRDS, "--in-tool", cwd=world.root).out


@pytest.mark.req("STORE-06", "TRUE-05")
def test_an_export_of_a_damaged_log_says_that_messages_may_be_missing(world: World, tmp_path: Path) -> None:
    assert cortext("export", BIRDS, cwd=world.root).err == ""
    _spoil(world.root, BIRDS)
    note = LOST.format(BIRDS)
    for command in (["export"], ["export", "--format", "html"], ["export", "--format", "json"], ["show", "--json"]):
        done = cortext(*command, BIRDS, cwd=world.root)
        assert done.code == 0 and f"Note: {note}." in done.err, command
        assert "json" not in command[-1] or done.json["problem"] == note
    assert f"damaged: {note}" in cortext("show", BIRDS, cwd=world.root).out
    _unfetch(world.root, BOAT)
    everything = cortext("export", "--format", "html", "--all", str(tmp_path / "site"), cwd=world.root)
    assert everything.code == 3
    assert f"Note: {BIRDS}: {note}." in everything.err
    assert f"left out {BOAT}: messages.jsonl of {BOAT}: {UNFETCHED}" in everything.err


@pytest.mark.req("STORE-06", "SESS-004a")
def test_a_log_that_lfs_has_not_fetched_is_neither_resumed_nor_saved_nor_exported(world: World) -> None:
    log = _unfetch(world.root, BIRDS)
    metadata = log.with_name("session.json").read_bytes()
    for command in (
        ["resume", BIRDS, "--print"],
        ["resume", BIRDS, "--ai", "codex", "--dry-run"],
        ["export", BIRDS],
        ["export", BIRDS, "--format", "json"],
        ["stop", BIRDS],
    ):
        done = cortext(*command, cwd=world.root)
        assert (done.code, done.out) == (3, ""), command
        assert UNFETCHED in done.err and "git lfs pull" in done.err, command
    inside = cortext("resume", BIRDS, "--in-tool", cwd=world.root)
    assert inside.code == 0 and "git lfs pull" in inside.out and "[RESUMED CONVERSATION]" not in inside.out
    shown = cortext("show", BIRDS, cwd=world.root)
    assert f"run `git lfs pull` in {world.root}" in shown.out and "cortext repair" not in shown.out
    assert log.read_bytes() == POINTER
    assert log.with_name("session.json").read_bytes() == metadata


@pytest.mark.req("TRUE-05", "FIND-01")
def test_a_search_says_that_sessions_it_asked_are_damaged(world: World) -> None:
    assert cortext("search", "kingfishers", cwd=world.root).err.count("Note:") == 0
    finder = TypedSearch(Stores(str(world.root)).listing, Stores(str(world.root)).search, None, lambda: None)
    assert finder.find(Query("kingfishers")).answer.incomplete == ""
    _spoil(world.root, BIRDS)
    note = SEARCHED.format("1 session is")
    found = cortext("search", "kingfishers", cwd=world.root)
    assert found.code == 1 and found.err == f"Note: {note}\n"
    assert note in cortext("search", "--exact", "Thanks", "--json", cwd=world.root).err
    for elsewhere in (["--type", "debug"], ["--tool", "codex"]):
        assert "damaged" not in cortext("search", "tar", *elsewhere, cwd=world.root).err
    finder.expire()
    assert finder.find(Query("kingfishers")).answer.incomplete == note
    assert finder.find(Query("")).answer.incomplete == ""
    _unfetch(world.root, BOAT)
    assert SEARCHED.format("2 sessions are") in cortext("search", "tar", cwd=world.root).err


@pytest.mark.req("TRUE-05", "STORE-06")
def test_the_mcp_server_says_that_a_session_is_damaged(world: World) -> None:
    context = Context(str(world.root), lambda: None)
    assert "incomplete" not in call(context, "get_session", {"id": BIRDS}).data
    _spoil(world.root, BIRDS)
    read = call(context, "get_session", {"id": BIRDS})
    assert read.data["incomplete"] == f"This session is damaged: {LOST.format(BIRDS)}."
    assert read.text.startswith(str(read.data["incomplete"])) and "Thanks." in read.text
    found = call(context, "search_sessions", {"query": "kingfishers"})
    assert found.data["incomplete"] == SEARCHED.format("1 session is")
    assert "incomplete" not in call(context, "get_session", {"id": BOAT}).data
    assert LOST.format(BIRDS) in call(context, "resume_session", {"id": BIRDS}).data["done"]
    _unfetch(world.root, BOAT)
    with pytest.raises(DamagedData, match=UNFETCHED):
        call(context, "resume_session", {"id": BOAT})
    assert "git lfs pull" in call(context, "get_session", {"id": BOAT}).data["incomplete"]


@pytest.mark.req("PAGE-01", "STORE-06")
def test_the_page_of_a_damaged_conversation_says_so(tmp_path: Path) -> None:
    pond = make_pond(tmp_path)
    _spoil(pond.folder, "001-plan-herons-at-the-pond")
    _unfetch(pond.folder, "003-brainstorm-long-walk")
    with serving(with_program(pond, "claude", CLAUDE), pond.folder) as served:
        assert served.open().status == 200
        herons, walk, knots = map(served.link, ("Herons at the pond", "A long walk", "Knots"))
        note = LOST.format("001-plan-herons-at-the-pond")
        assert f"This conversation is damaged: {note}" in served.get(herons).words
        assert note in served.get(f"{herons}/continue?tool=claude").words
        assert served.get(f"{herons}/export?format=markdown").status == 200
        page = served.get(walk).words
        assert "git lfs pull" in page and "Nothing has been said yet" not in page
        for refused in (f"{walk}/continue?tool=claude", f"{walk}/export?format=markdown"):
            reply = served.get(refused)
            assert reply.status >= 400 and UNFETCHED in reply.words, refused
        assert "is damaged" not in served.get(knots).words
