"""Names, links and trash notes that lead out of the store are refused before anything is changed."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cortext.errors import CortextError, InvalidId, NotFound, UnsafePath, WriteFailed
from cortext.model.message import Message
from cortext.model.session import Change, Session
from cortext.store.files.chat import ChatStore
from cortext.store.files.spawn import SpawnStore
from cortext.store.files.store import FileStore
from cortext.testing.table import every_row
from tests.store.damage import ID, LAYOUTS, Layout, command_line_chat, make_store

pytestmark = pytest.mark.usefixtures("no_flush")
every_layout = pytest.mark.parametrize("layout", LAYOUTS, ids=[layout.name for layout in LAYOUTS])
LEGAL = re.compile(r"\A[a-z0-9][a-z0-9_-]{0,95}\Z")
SECRET = "the neighbour's secret"

BAD = [
    "..", ".", "../", "/", "/etc/passwd", "../../../../etc/passwd", "a/../../b", "a//b", "\\",
    "..\\..\\x", "\\\\host\\x", "\0", "a\0", "\0/../x", "-", "-rf", "--help", "_", "__init__", "~",
    "~root", "$HOME", "${HOME}", "`id`", "$(id)", ";", "a b", " ", "\t", "\n", "\r", "\r\n", "\v",
    "\x1b[31m", "\x7f", "\x85", "\u2028", "\u00a0", "\u200b", "\u202e", "\ufeff", ".hidden", "a.b",
    "x.jsonl", "x.lock", "current.json", "trash.json", "*", "?", "[a]", "{a}", "|", "&", "<", ">",
    ":", "'", '"', "!", "#", "@", "%", "%2e%2e%2f", "%00", "%2f", "%5c", "+", "=", ",", "^", "A",
    "ABC", "Session", "CON", "NUL", "É", "é", "ß", "а", "ѕ", "е", "ａ", "１", "①", "²", "٣", "३", "ı",
    "K", "ſ", "ﬁ", "İ", "a\u0301", "一", "😀", "\ud800", "\udcff", "",
]  # fmt: skip


def hostile_ids() -> list[str]:
    """Return over a thousand invalid ids: each bad text alone and in combination with good ones, and very long ids."""
    shapes: list[Callable[[str], str]] = [
        lambda bad: bad,
        lambda bad: f"{bad}abc",
        lambda bad: f"abc{bad}",
        lambda bad: f"sess{bad}one",
        lambda bad: f"{ID}{bad}",
        lambda bad: bad * 2,
        lambda bad: f"{bad}/{ID}",
        lambda bad: f"{ID}/{bad}",
        lambda bad: f"{bad}\n",
        lambda bad: f"../{bad}",
        lambda bad: f"{ID}\0{bad}",
        lambda bad: f"{bad}{'a' * 96}",
    ]
    names = {shape(bad) for shape in shapes for bad in BAD}
    names |= {"a" * length for length in (97, 128, 255, 256, 4096, 100_000)}
    return sorted(name for name in names if not LEGAL.match(name))


def tree(root: Path) -> dict[str, tuple[int, bytes | None]]:
    """Return every path in a folder except a store's hints, with its inode and contents; links are not followed."""
    return {
        str(path.relative_to(root)): (
            path.lstat().st_ino,
            path.read_bytes() if path.is_file() and not path.is_symlink() else None,
        )
        for path in root.rglob("*")
        if path.name != "changes"
    }


def opened(store: FileStore, session_id: str) -> None:
    with store.open(session_id, timeout=0):
        pass


def calls(store: FileStore, session_id: str) -> dict[str, Callable[[], Any]]:
    """Return a call of every method that takes an id."""
    message = Message(role="user", content="x")
    found: dict[str, Callable[[], Any]] = {
        "get": lambda: store.get(session_id),
        "read": lambda: list(store.read(session_id)),
        "tail": lambda: store.tail(session_id, 3),
        "open": lambda: opened(store, session_id),
        "append": lambda: store.append(session_id, message),
        "update": lambda: store.update(session_id, Change(status="paused")),
        "check": lambda: store.check(session_id),
        "repair": lambda: store.repair(session_id),
        "compact": lambda: store.compact(session_id, 2),
        "create": lambda: store.create(Session(id=session_id)),
        "delete": lambda: store.delete(session_id),
        "restore": lambda: store.restore(f"{session_id}.1a2b3c"),
    }
    if isinstance(store, ChatStore):
        found["annotate"] = lambda: store.annotate(session_id, {"type": "note", "message_id": "x"})
        found["annotations"] = lambda: list(store.annotations(session_id))
        if session_id:  # an empty id means that no session is active
            found["activate"] = lambda: command_line_chat(store.root).activate("cli", session_id)
    return found


@pytest.mark.req("STORE-09")
@every_layout
def test_every_method_refuses_a_thousand_hostile_ids_and_changes_nothing(layout: Layout, tmp_path: Path) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "passwd").write_text("root", encoding="utf-8")
    store, _, _ = make_store(layout, tmp_path / "one" / "store", 2)
    ids = hostile_ids()
    assert len(ids) >= 1_000
    before = tree(tmp_path)
    for bad in ids:
        for name, call in calls(store, bad).items():
            with pytest.raises(InvalidId):
                call()
                raise AssertionError(f"{name} accepted {bad!r}")
        with pytest.raises((InvalidId, NotFound)):
            store.restore(bad)
    assert tree(tmp_path) == before


@pytest.mark.req("STORE-09")
@every_layout
@every_row("name", ["con", "nul", "aux", "prn", "com1", "lpt9", "trash", "locks", "0", "a" * 96, "a--", "0_-"])
def test_names_that_only_look_special_are_ordinary_ids(layout: Layout, name: str, tmp_path: Path) -> None:
    """Device names of Windows are allowed too, because cortext does not run there."""
    store = layout.make(str(tmp_path))
    store.create(Session(id=name))
    store.append(name, Message(role="user", content="x"))
    assert [session.id for session in store.sessions()] == [name]
    store.restore(store.delete(name).key)
    assert store.get(name).message_count == 1


@pytest.mark.req("STORE-09")
@every_layout
def test_files_with_invalid_names_in_the_store_are_not_sessions(layout: Layout, tmp_path: Path) -> None:
    store, _, _ = make_store(layout, tmp_path, 2)
    log = layout.log_in(tmp_path)
    folder = tmp_path if layout.name != "workspace" else tmp_path / "conversations" / "2026-01-01"
    for name in ("Upper", "-dash", ".hidden", "with space", "dot.ted", "é", "new\nline"):
        path = {
            "workspace": folder / name / ".session" / "messages.jsonl",
            "spawn": folder / f"{name}.jsonl",
            "chat": folder / name / "current.jsonl",
        }[layout.name]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(log.read_bytes())
    assert [session.id for session in store.sessions()] == [ID]


def linkable_paths(layout: Layout) -> list[str]:
    """Return every path of a layout that could be a link, relative to the root of the store."""
    control = ".workspace/state" if layout.name == "workspace" else ".cortext"
    found = [layout.log, layout.metadata, f"{layout.log}.quarantine", control, f"{control}/locks"]
    found += [f"{control}/locks/{ID}.lock", f"{control}/trash"]
    folder = os.path.dirname(layout.log)
    while folder:
        found.append(folder)
        folder = os.path.dirname(folder)
    if layout.name != "spawn":
        found.append(os.path.join(os.path.dirname(layout.log), "archive.jsonl"))
    if layout.name == "chat":
        found += [f"{ID}/summary.json", "current.json"]
    if layout.name == "workspace":
        found.append(".workspace")
    return sorted(set(found))


CASES = [(layout, path) for layout in LAYOUTS for path in linkable_paths(layout)]


def full_store(layout: Layout, root: Path) -> FileStore:
    """Return a store with a session that has every kind of file: log, archive, quarantine, summary, lock, trash."""
    store, _, _ = make_store(layout, root, 4)
    store.append(ID, Message(role="user", content=SECRET))
    store.update(ID, Change(summary=SECRET, summary_covers=2))
    layout.log_in(root).write_bytes(layout.log_in(root).read_bytes() + b"torn")
    store.repair(ID)
    if not isinstance(store, SpawnStore):
        store.compact(ID, 2)
    if isinstance(store, ChatStore):
        command_line_chat(root).activate("cli", ID)
    store.create(Session(id="other"))
    store.delete("other")
    store.create(Session(id="second"))
    return store


@pytest.mark.req("STORE-09")
@pytest.mark.parametrize("target", ["outside", "dangling"])
@every_row(("layout", "relative"), CASES, ids=[f"{layout.name} {path}" for layout, path in CASES])
def test_a_link_anywhere_in_the_store_is_not_followed(
    layout: Layout, relative: str, target: str, tmp_path: Path
) -> None:
    root, outside = tmp_path / "store", tmp_path / "outside"
    outside.mkdir()
    full_store(layout, root)
    path = root / relative
    assert path.exists(), "the path exists before it becomes a link"
    path.rename(outside / "real")
    path.symlink_to(outside / ("real" if target == "outside" else "missing"))
    store = layout.make(str(root))
    before = tree(outside)
    blocks_reading = os.path.commonpath([relative, layout.log]) == relative or relative.endswith("archive.jsonl")
    keys = ["other.1a2b", *_trash_keys(outside / "real"), *_trash_keys(root)]
    attempts: dict[str, Callable[[], Any]] = {
        "sessions": lambda: list(store.sessions()),
        "trash": lambda: list(store.trash()),
        **calls(store, ID),
        **{f"restore {key}": lambda key=key: store.restore(key) for key in keys},  # type: ignore[misc]
    }
    if isinstance(store, ChatStore):
        attempts["active"] = lambda: command_line_chat(root).active("cli")
    for name, call in attempts.items():
        try:
            result = call()
        except CortextError:
            continue
        finally:
            assert tree(outside) == before, f"{name} changed files outside"
        if blocks_reading and name in ("get", "read", "tail", "sessions"):
            assert SECRET not in repr(result), f"{name} read files outside"
    assert not (outside / "missing").exists()


def _trash_keys(folder: Path) -> list[str]:
    return [path.parent.name for path in folder.rglob("trash.json")]


@pytest.mark.req("STORE-06", "STORE-09")
@every_layout
def test_a_session_behind_a_link_is_listed_as_damaged_among_the_others(layout: Layout, tmp_path: Path) -> None:
    store = full_store(layout, tmp_path / "store")
    for relative in {layout.log, layout.metadata}:
        path = tmp_path / "store" / relative
        path.rename(tmp_path / f"real-{path.name}")
        path.symlink_to(tmp_path / f"real-{path.name}")
    assert sorted((session.id, session.damage) for session in store.sessions()) == [("second", 0), (ID, 1)]
    with pytest.raises(UnsafePath, match="symbolic link"):
        store.get(ID)


@pytest.mark.req("STORE-06", "STORE-09")
@every_layout
@pytest.mark.parametrize("kind", ["pipe", "folder"])
def test_a_log_that_is_not_a_file_is_damage_and_never_blocks(layout: Layout, kind: str, tmp_path: Path) -> None:
    store = full_store(layout, tmp_path)
    log = layout.log_in(tmp_path)
    log.unlink()
    if kind == "pipe":
        os.mkfifo(log)
    else:
        log.mkdir()
    assert sorted((session.id, session.damage) for session in store.sessions()) == [("second", 0), (ID, 1)]
    for call in (
        lambda: store.get(ID),
        lambda: list(store.read(ID)),
        lambda: store.tail(ID, 1),
        lambda: store.check(ID),
    ):
        with pytest.raises(UnsafePath, match="is not a file"):
            call()
    with pytest.raises((UnsafePath, WriteFailed)):
        store.append(ID, Message(role="user", content="x"))


@pytest.mark.req("STORE-09")
@every_layout
def test_a_folder_that_becomes_a_link_after_opening_is_refused(layout: Layout, tmp_path: Path) -> None:
    store, _, _ = make_store(layout, tmp_path / "store", 2)
    folder = layout.log_in(tmp_path / "store").parent
    if layout.name == "spawn":
        folder = tmp_path / "store" / ".cortext" / "locks"
    folder.rename(tmp_path / "moved")
    folder.symlink_to(tmp_path / "moved")
    before = tree(tmp_path / "moved")
    with pytest.raises(UnsafePath):
        store.append(ID, Message(role="user", content="x"))
    assert tree(tmp_path / "moved") == before


@pytest.mark.req("STORE-09")
@every_layout
def test_a_link_to_a_session_inside_the_store_is_not_a_session(layout: Layout, tmp_path: Path) -> None:
    store, _, _ = make_store(layout, tmp_path, 2)
    session = layout.log_in(tmp_path)
    for _ in range({"workspace": 2, "spawn": 0, "chat": 1}[layout.name]):
        session = session.parent
    alias = session.with_name(session.name.replace(ID, "alias"))
    alias.symlink_to(session)
    alias_calls = calls(store, "alias")
    for name in ("get", "read", "tail", "append", "update", "check", "repair"):
        with pytest.raises(UnsafePath):
            alias_calls[name]()
    assert store.get(ID).message_count == 2
    assert [session.id for session in store.sessions() if not session.damage] == [ID]


@pytest.mark.req("STORE-09")
@every_layout
@pytest.mark.parametrize("linked", ["the key", "the note", "the session"])
def test_a_link_inside_the_trash_is_not_restored(layout: Layout, linked: str, tmp_path: Path) -> None:
    store, _, _ = make_store(layout, tmp_path / "store", 2)
    key = store.delete(ID).key
    [note] = (tmp_path / "store").rglob("trash.json")
    [session] = [path for path in note.parent.iterdir() if path != note]
    path = {"the key": note.parent, "the note": note, "the session": session}[linked]
    path.rename(tmp_path / "outside")
    path.symlink_to(tmp_path / "outside")
    before = tree(tmp_path)
    assert linked == "the session" or list(store.trash()) == []
    with pytest.raises((NotFound, UnsafePath)):
        store.restore(key)
    assert list(store.sessions()) == []
    after = {name: contents for name, contents in tree(tmp_path).items() if not name.endswith(".lock")}
    assert after == {name: contents for name, contents in before.items() if not name.endswith(".lock")}


NOTES: dict[str, Any] = {
    "above": ["../evil"],
    "far above": ["../../../../tmp/evil"],
    "absolute": ["/tmp/evil"],
    "through a folder": ["conversations/../../evil"],
    "a git hook": [".git/hooks/evil"],
    "the control folder": [".cortext/locks/evil"],
    "another session": ["second"],
    "another session's file": ["second.jsonl"],
    "beside the days": ["conversations/evil"],
    "deeper": ["conversations/2026-01-01/other/deeper/evil"],
    "back and forth": ["evil", "../evil"],
    "empty": [""],
    "a dot": ["."],
    "an empty list": [],
    "not a list": "evil",
    "numbers": [1, 2],
    "NUL": ["ev\0il"],
    "backslash": ["..\\evil"],
}


@pytest.mark.req("STORE-09")
@every_layout
@every_row("origins", NOTES.values(), ids=NOTES)
def test_a_forged_note_in_the_trash_moves_nothing(layout: Layout, origins: Any, tmp_path: Path) -> None:
    root = tmp_path / "store"
    store, _, _ = make_store(layout, root, 2)
    store.create(Session(id="other"))
    key = store.delete("other").key
    [note] = root.rglob("trash.json")
    fields = json.loads(note.read_bytes())
    note.write_text(json.dumps({**fields, "origins": origins}), encoding="utf-8")
    for name in ("evil", "second", "second.jsonl"):
        (note.parent / name).write_text("#!/bin/sh\n", encoding="utf-8")
    before = tree(tmp_path)
    with pytest.raises((UnsafePath, NotFound)):
        store.restore(key)
    after = {name: contents for name, contents in tree(tmp_path).items() if not name.endswith("other.lock")}
    assert after == {name: contents for name, contents in before.items() if not name.endswith("other.lock")}
    list(store.trash())  # listing does not fail


@pytest.mark.req("STORE-09")
@every_layout
def test_a_note_about_another_session_than_its_key_is_ignored(layout: Layout, tmp_path: Path) -> None:
    store, _, _ = make_store(layout, tmp_path, 2)
    key = store.delete(ID).key
    [note] = tmp_path.rglob("trash.json")
    note.write_text(note.read_text(encoding="utf-8").replace(f'"{ID}"', '"another"'), encoding="utf-8")
    assert list(store.trash()) == []
    with pytest.raises(NotFound):
        store.restore(key)
