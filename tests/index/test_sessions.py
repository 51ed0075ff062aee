"""The session list follows the files, whoever changes them, and can be deleted at any time."""

from __future__ import annotations

import os
import sqlite3
from contextlib import closing
from functools import partial
from itertools import product
from operator import attrgetter
from pathlib import Path

import pytest

from cortext.index import refresh
from cortext.index import sessions as sessions_module
from cortext.index.database import connect
from cortext.index.refresh import StoreSource
from cortext.index.sessions import Row, SessionIndex
from cortext.io import durable
from cortext.model.message import Message
from cortext.model.session import Change, Session
from cortext.store.files.chat import ChatStore
from cortext.store.files.spawn import SpawnStore
from cortext.store.files.store import FileStore
from cortext.store.files.workspace import WorkspaceStore
from cortext.testing.table import table

KINDS = {"workspace": WorkspaceStore, "spawn": SpawnStore, "chat": ChatStore}


class World:
    """A store of some layout, with its index."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.folder, self.kind = folder, kind
        self.root = folder / "store"
        self.root.mkdir(parents=True)
        self.store: FileStore = KINDS[kind](str(self.root))
        self.read: list[str] = []

    def source(self) -> StoreSource:
        return StoreSource(str(self.root), self.kind, self.store.control, partial(self._open))

    def _open(self) -> FileStore:
        store: FileStore = KINDS[self.kind](str(self.root))
        get = store.get

        def counted(session_id: str) -> Session:
            self.read.append(session_id)
            return get(session_id)

        store.get = counted  # type: ignore[method-assign]
        return store

    def rows(self) -> dict[str, tuple[str, int, str]]:
        """Return what a new process would list: title, message count and status by id."""
        index = SessionIndex(str(self.folder / "cache"))
        self.read.clear()
        index.refresh([self.source()])
        found = {row.id: (row.title, row.message_count, row.status) for row in index.rows([str(self.root)])}
        index.close()
        return found


@pytest.fixture(params=list(KINDS))
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    """A store of each layout with three sessions."""
    made = World(tmp_path, request.param)
    for name in ("a", "b", "c"):
        made.store.create(Session(id=name, title=f"T {name}"))
        made.store.append(name, Message(role="user", content="hello"))
    return made


@pytest.mark.req("STORE-01", "FIND-03")
def test_sessions_are_listed_and_read_only_once(world: World) -> None:
    assert world.rows() == {name: (f"T {name}", 1, "active") for name in ("a", "b", "c")}
    assert sorted(world.read) == ["a", "b", "c"]
    world.rows()
    assert world.read == []


@pytest.mark.req("FIND-03")
def test_only_sessions_that_our_writers_changed_are_read_again(world: World) -> None:
    world.rows()
    world.store.append("b", Message(role="assistant", content="hi"))
    world.store.update("b", Change(status="paused", title="Other"))
    assert world.rows()["b"] == ("Other", 2, "paused")
    assert world.read == ["b"]


@pytest.mark.req("FIND-03")
def test_created_deleted_and_restored_sessions_appear_and_vanish(world: World) -> None:
    world.rows()
    world.store.create(Session(id="d"))
    trashed = world.store.delete("a")
    assert set(world.rows()) == {"b", "c", "d"}
    world.store.restore(trashed.key)
    assert set(world.rows()) == {"a", "b", "c", "d"}


@pytest.mark.req("FIND-03")
def test_a_line_appended_by_another_program_is_seen(world: World) -> None:
    world.rows()
    log = next(
        path for path in world.root.rglob("*.jsonl") if "b" in (path.parent.parent.name, path.stem, path.parent.name)
    )
    with open(log, "a", encoding="utf-8") as file:
        file.write('{"role": "user", "content": "by hand", "timestamp": "2026-01-01T00:00:00Z"}\n')
    assert world.rows()["b"][1] == 2


@pytest.mark.req("FIND-03")
def test_many_sessions_are_followed_by_fingerprints_alone(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refresh, "FEW", 0)
    world.rows()
    world.store.append("c", Message(role="user", content="more"))
    world.store.create(Session(id="e"))
    world.store.delete("a")
    found = world.rows()
    assert set(found) == {"b", "c", "e"}
    assert found["c"][1] == 2
    assert sorted(set(world.read)) == ["a", "c", "e"]


@pytest.mark.req("FIND-03", "FLOW-08")
def test_with_many_sessions_a_metadata_change_by_others_is_seen(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refresh, "FEW", 0)
    world.rows()
    file = next(path for path in world.root.rglob("*.json*") if '"T b"' in path.read_text(encoding="utf-8"))
    file.write_text(file.read_text(encoding="utf-8").replace("T b", "T x"), encoding="utf-8")  # same length
    assert world.rows()["b"][0] == "T x"
    assert world.read == ["b"]
    world.rows()
    assert world.read == []


@pytest.mark.req("FIND-03")
def test_a_running_process_looks_at_very_many_files_only_now_and_then(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refresh, "FEW", 0)
    monkeypatch.setattr(refresh, "NEWEST", 0)
    now = 100.0
    monkeypatch.setattr("cortext.index.sessions.time.monotonic", lambda: now)
    index = SessionIndex(str(world.folder / "cache"))

    def listed() -> dict[str, tuple[str, int]]:
        index.refresh([world.source()])
        return {row.id: (row.title, row.message_count) for row in index.rows([str(world.root)])}

    listed()
    file = next(path for path in world.root.rglob("*.json*") if '"T b"' in path.read_text(encoding="utf-8"))
    file.write_text(file.read_text(encoding="utf-8").replace("T b", "T x"), encoding="utf-8")
    world.store.append("c", Message(role="user", content="more"))
    now += sessions_module.LOOK_AGAIN / 2
    assert listed() == {"a": ("T a", 1), "b": ("T b", 1), "c": ("T c", 2)}
    now += sessions_module.LOOK_AGAIN / 2
    assert listed() == {"a": ("T a", 1), "b": ("T x", 1), "c": ("T c", 2)}
    index.close()


@pytest.mark.req("FIND-03", "FIND-04")
def test_the_files_of_old_sessions_are_looked_at_by_a_full_scan(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refresh, "FEW", 0)
    monkeypatch.setattr(refresh, "MANY", 1)
    world.store.append("c", Message(role="user", content="newest"))
    world.rows()
    for name in ("a", "c"):
        file = next(path for path in world.root.rglob("*.json*") if f'"T {name}"' in path.read_text(encoding="utf-8"))
        file.write_text(file.read_text(encoding="utf-8").replace(f"T {name}", "T x"), encoding="utf-8")
    found = world.rows()
    assert (found["a"][0], found["c"][0]) == ("T a", "T x")
    index = SessionIndex(str(world.folder / "cache"))
    index.refresh([world.source()], everything=True)
    assert {row.title for row in index.rows([str(world.root)])} == {"T x", "T b"}
    index.close()


@pytest.mark.req("STORE-01")
def test_a_deleted_or_damaged_index_comes_back_the_same(world: World) -> None:
    before = world.rows()
    database = world.folder / "cache" / "catalogue.db"
    for damage in (b"", b"not a database at all, only text" * 100):
        for path in (database, Path(f"{database}-wal"), Path(f"{database}-shm")):
            path.unlink(missing_ok=True)
        if damage:
            database.write_bytes(damage)
        assert world.rows() == before


@pytest.mark.req("FIND-03")
def test_the_sessions_of_a_removed_store_leave_the_list(world: World) -> None:
    world.rows()
    os.rename(world.root, world.folder / "elsewhere")
    assert world.rows() == {}


@pytest.mark.req("FIND-03")
def test_the_writers_notes_stay_short_and_lose_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refresh, "FEW", 0)
    monkeypatch.setattr(durable, "HINTS", 20)
    for number in range(12):
        world.rows()
        world.store.append("b", Message(role="user", content=f"more {number}"))
        assert world.rows()["b"][1] == number + 2
    assert os.path.getsize(os.path.join(world.store.control, "changes")) < 60


@pytest.mark.req("FIND-03")
@pytest.mark.parametrize("folder", ['a "quoted" one', "back\\slash", "größer", "\udcff", "new\nline", "tab\there"])
def test_a_folder_with_any_name_is_followed(folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refresh, "FEW", 0)
    world = World(tmp_path, "workspace")
    world.store.create(Session(id="a"))
    (world.root / "conversations" / folder).mkdir()
    assert set(world.rows()) == {"a"}
    world.rows()
    assert world.read == []
    made = next(iter((world.root / "conversations").glob("*/a")))
    os.rename(made, world.root / "conversations" / folder / "a")
    assert set(world.rows()) == {"a"}
    assert world.read == ["a"]


@pytest.mark.req("STORE-01")
def test_an_unreadable_fingerprint_is_ignored(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(refresh, "FEW", 0)
    before = world.rows()
    with closing(sqlite3.connect(world.folder / "cache" / "catalogue.db")) as database, database:
        database.execute("UPDATE store SET signs = ?", ("[('HEAD', 1)]",))
    database.close()
    assert world.rows() == before


def test_cells_are_the_fields_of_the_same_rows(tmp_path: Path) -> None:
    worlds = [World(tmp_path / kind, kind) for kind in KINDS]
    for world in worlds:
        for number, status in enumerate(("active", "paused", "active", "completed", "active")):
            stamp = f"2026-01-0{1 + number % 3}T00:00:00Z"
            made = Session(id=f"s{number}", status=status, created_at=stamp, last_active=stamp)
            made.type, made.agent = ("debug", "qa") if number % 2 else ("", "")
            made.title, made.summary = ("" if number == 2 else f"T {number}"), "Of it."
            world.store.create(made)
    conditions: list[list[tuple[str, str]]] = [
        [],
        [("status", "active")],
        [("status", "paused")],
        [("type", "debug")],
        [("type", "debug"), ("status", "active")],
        [("agent", "qa")],
        [("damage", "")],
        [("after", "2026-01-02T00:00:00Z"), ("status", "active")],
    ]
    orders = ("last_active", "created_at", "message_count", "title")
    roots = [str(world.root) for world in worlds]
    with closing(SessionIndex(str(tmp_path / "cache"))) as index, table() as row:
        index.refresh([world.source() for world in worlds])
        assert {found.shown_type for found in index.rows(roots)} >= {"spawn", "chat"}
        for where, order, limit in product(conditions, orders, (0, 3)):
            with row(f"{where} by {order}, at most {limit}"):
                _check_cells(index, roots, where, order, limit)


def _check_cells(index: SessionIndex, roots: list[str], where: list[tuple[str, str]], order: str, limit: int) -> None:
    rows = index.rows(roots, where, limit=limit, order=order)
    fields = tuple(dict.fromkeys(("id", "shown_type", "root", "shown_title", "damage", order)))
    assert index.cells(fields, roots, where, limit=limit, order=order) == list(map(attrgetter(*fields), rows))
    assert [getattr(row, order) for row in rows] == sorted([getattr(row, order) for row in rows], reverse=True)
    plain = [row for row in index.rows(roots, limit=100, order=order) if _fits(row, where)]
    assert {(row.root, row.id) for row in rows} <= {(row.root, row.id) for row in plain}
    assert len(rows) == (min(limit, len(plain)) if limit else len(plain))


def _fits(row: Row, where: list[tuple[str, str]]) -> bool:
    return all(
        row.damage > 0
        if name == "damage"
        else row.last_active >= value
        if name == "after"
        else getattr(row, name) == value
        for name, value in where
    )


@pytest.mark.req("FIND-03")
def test_active_sessions_are_found_by_their_index(tmp_path: Path) -> None:
    database = connect(str(tmp_path))
    conditions, values = sessions_module._conditions(["/somewhere"], [sessions_module.IN_USE])
    plan = database.execute(f"EXPLAIN QUERY PLAN SELECT * FROM session WHERE {conditions}", values).fetchall()
    database.close()
    assert "session_in_use" in str(plan)
