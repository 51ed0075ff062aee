"""A locked or damaged cache costs the user nothing, and is not mistaken for a full disk."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from cortext.config import folders
from cortext.errors import SessionBusy
from cortext.index.catalogue import Catalogue, Entry
from cortext.index.search.generation import check_space
from cortext.model.message import Message
from cortext.store.files.workspace import WorkspaceStore
from cortext.wiring.stores import Stores
from tests.support.cli import cortext, git

ID = "001-plan-herons"


def workspace(folder: Path) -> Path:
    folder.mkdir()
    git(folder, "init", "-q")
    assert cortext("init", "--ai", "claude", cwd=folder).code == 0
    assert cortext("new", "plan", "Herons", cwd=folder).code == 0
    WorkspaceStore(str(folder)).append(ID, Message(role="user", content="seventeen herons at dawn"))
    assert ID in cortext("search", "dawn", cwd=folder).out
    return folder


@pytest.mark.req("SAFE-07", "FIND-03")
def test_a_locked_database_is_not_called_a_full_disk(home: Path, tmp_path: Path) -> None:
    """Another program holds the index's database: the error says so and does not mention space."""
    with (
        closing(sqlite3.connect(tmp_path / "state.db")) as holder,
        closing(sqlite3.connect(tmp_path / "state.db", timeout=0)) as other,
    ):
        holder.execute("CREATE TABLE fact (name)")
        holder.commit()
        holder.execute("BEGIN EXCLUSIVE")
        with pytest.raises(sqlite3.OperationalError) as raised:
            other.execute("BEGIN IMMEDIATE")
        with pytest.raises(SessionBusy) as reported:
            check_space(raised.value, str(tmp_path))
    assert "another process is using" in reported.value.message and "try again" in reported.value.hint
    assert "disk" not in reported.value.message + reported.value.hint


@pytest.mark.req("SAFE-07", "FIND-03", "STORE-01")
@pytest.mark.parametrize("suffix", ["", "-wal"], ids=["database", "wal"])
def test_a_damaged_cache_is_recreated_silently(home: Path, tmp_path: Path, suffix: str) -> None:
    """List, search and sync behave as if nothing had happened."""
    folder = workspace(tmp_path / "work")
    cache = home / ".cache" / "cortext"
    damaged = [path for path in cache.rglob(f"*.db{suffix}") if path.stat().st_size > 4096]
    assert damaged or not suffix
    for path in damaged or list(cache.rglob("*.db")):
        data = bytearray(path.read_bytes())
        for offset in range(600, len(data), 97):
            data[offset] ^= 0xFF
        path.write_bytes(data)
    for words in (("list",), ("search", "dawn"), ("sync",), ("list",)):
        done = cortext(*words, cwd=folder)
        assert done.code == 0, (words, done)
        assert "Traceback" not in done.err and "bug in cortext" not in done.err
        assert words == ("sync",) or ID in done.out


@pytest.mark.req("SAFE-07", "FIND-03")
@pytest.mark.parametrize("name", ["state.db-wal", "state.db", "catalogue.db-wal", "catalogue.db"])
def test_a_folder_instead_of_a_cache_file_is_not_a_full_disk(home: Path, tmp_path: Path, name: str) -> None:
    """SQLite reports both as a database it cannot open; a path that is not a file is damage and is recreated."""
    folder = workspace(tmp_path / "work")
    cache = home / ".cache" / "cortext"
    [database] = cache.rglob(name.removesuffix("-wal"))
    for path in (database, database.with_name(f"{database.name}-wal")):
        if path.name == name:
            path.unlink(missing_ok=True)
    (database.with_name(name) / "inner").mkdir(parents=True)
    for words in (("list",), ("search", "dawn"), ("sync",), ("search", "--exact", "dawn")):
        done = cortext(*words, cwd=folder)
        assert done.code == 0 and "disk is full" not in done.err, (words, done)
        assert words == ("sync",) or ID in done.out


@pytest.mark.req("SAFE-07")
def test_a_damaged_catalogue_is_empty_and_accepts_entries_again(tmp_path: Path) -> None:
    """The pages of its table are garbage, which shows when they are read, not when the database is opened."""
    catalogue = Catalogue(str(tmp_path))
    catalogue.put(Entry("claude", "k", "/root", "s"))
    catalogue.close()
    path = tmp_path / "catalogue.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        [page] = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'transcript'").fetchone()
        [size] = connection.execute("PRAGMA page_size").fetchone()
    connection.close()
    data = bytearray(path.read_bytes())
    data[(page - 1) * size : page * size] = b"\xff" * size
    path.write_bytes(data)
    again = Catalogue(str(tmp_path))
    assert again.get("claude", "k") is None and again.all() == {}
    again.put(Entry("claude", "k", "/root", "s"))
    assert Catalogue(str(tmp_path)).get("claude", "k") is not None


@pytest.mark.req("SAFE-07")
def test_a_connection_that_is_used_twice_at_once_does_not_cost_the_catalogue(home: Path, tmp_path: Path) -> None:
    """Two threads of the page on one connection: an error for one of them, and nothing that other programs lose."""
    folder = workspace(tmp_path / "work")
    listing = Stores(str(folder)).listing()
    listing.refresh()
    catalogue = Catalogue(folders.cache())
    catalogue.put(Entry("claude", "k", "/root", "s"))
    WorkspaceStore(str(folder)).append(ID, Message(role="user", content="and one more"))
    listing.index._database.execute("BEGIN IMMEDIATE")
    with pytest.raises(sqlite3.OperationalError, match="within a transaction"):
        listing.refresh()
    listing.index._database.execute("ROLLBACK")
    assert Catalogue(folders.cache()).get("claude", "k") is not None
    listing.refresh()
    assert [row.id for row in listing.rows()] == [ID]
