"""The files that each layout writes, byte for byte where other readers depend on it."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cortext.errors import SessionNotFound
from cortext.model.message import Message, Part
from cortext.model.session import AgentConfig, Change, Origin, Session
from cortext.store.files.chat import ChatStore
from cortext.store.files.spawn import SpawnStore
from cortext.store.files.store import FileStore
from cortext.store.files.workspace import WorkspaceStore
from tests.store.damage import command_line_chat

pytestmark = pytest.mark.usefixtures("no_flush")
ID = "001-brainstorm-api"
DAY = "2025-11-22"
FIRST = Message(role="user", content="Let's brainstorm: é, 漢字", timestamp="2025-11-22T10:30:00Z", id="m0")
SECOND = Message(
    role="assistant",
    content="Great!",
    timestamp="2025-11-22T10:30:15Z",
    id="m1",
    model="claude-sonnet-4-5",
    parts=[Part(type="text", text="Great!"), Part(type="tool_call", id="c1", name="Read", input={"path": "a b"})],
    usage={"output_tokens": 3},
)
LAYOUTS: list[Callable[[str], FileStore]] = [WorkspaceStore, SpawnStore, ChatStore]
every_layout = pytest.mark.parametrize("layout", LAYOUTS, ids=["workspace", "spawn", "chat"])


def files(root: Path) -> dict[str, str]:
    """Return every file of a store except locks and hints, by its path relative to the root."""
    found = {str(path.relative_to(root)): path for path in root.rglob("*") if path.is_file()}
    return {
        name: path.read_text(encoding="utf-8")
        for name, path in found.items()
        if not name.endswith((".lock", "/changes"))
    }


def start(layout: Callable[[str], FileStore], root: Path) -> FileStore:
    store = layout(str(root))
    store.create(Session(id=ID, type="brainstorm", title="API", agent="architect", created_at="2025-11-22T10:30:00Z"))
    return store


@pytest.mark.req("STORE-01", "STORE-11")
def test_a_workspace_session_is_two_files_in_the_folder_of_its_day(tmp_path: Path) -> None:
    store = start(WorkspaceStore, tmp_path)
    store.append(ID, FIRST)
    store.append(ID, SECOND)
    config = AgentConfig(command="/workspace.brainstorm", system_prompt_hash="sha256:ab", model="m", tools=["t"])
    origin = Origin(tool="claude-code", session_id="0199")
    store.update(ID, Change(status="paused", summary="Leaning toward REST", agent_config=config, origin=origin))
    folder = f"conversations/{DAY}/{ID}/.session"
    assert files(tmp_path) == {
        ".workspace/state/.gitignore": "# locks and trash of this machine: never in git\n*\n",
        f"{folder}/session.json": """{
  "version": "1.0",
  "conversation_id": "001-brainstorm-api",
  "conversation_type": "brainstorm",
  "title": "API",
  "status": "paused",
  "created_at": "2025-11-22T10:30:00Z",
  "last_active": "2025-11-22T10:30:15Z",
  "message_count": 2,
  "token_count": 10,
  "agent_config": {
    "command": "/workspace.brainstorm",
    "system_prompt_hash": "sha256:ab",
    "model": "m",
    "tools": [
      "t"
    ]
  },
  "context_summary": "Leaning toward REST",
  "agent": "architect",
  "continuation": {
    "tool": "claude-code",
    "session_id": "0199"
  }
}
""",
        f"{folder}/messages.jsonl": (
            '{"role": "user", "content": "Let\'s brainstorm: é, 漢字", "timestamp": "2025-11-22T10:30:00Z", '
            '"tokens": 8, "id": "m0", "seq": 0}\n'
            '{"role": "assistant", "content": "Great!", "timestamp": "2025-11-22T10:30:15Z", "tokens": 2, "id": "m1", '
            '"seq": 1, "model": "claude-sonnet-4-5", "parts": [{"type": "text", "text": "Great!"}, '
            '{"type": "tool_call", "id": "c1", "name": "Read", "input": {"path": "a b"}}], '
            '"usage": {"output_tokens": 3}}\n'
        ),
    }


@pytest.mark.req("STORE-01", "STORE-11")
def test_a_spawn_session_is_one_file_that_begins_with_its_metadata(tmp_path: Path) -> None:
    store = start(SpawnStore, tmp_path)
    line = (
        '{"type": "metadata", "session_id": "001-brainstorm-api", "agent": "architect", '
        '"created_at": "2025-11-22T10:30:00Z", "status": "active", "title": "API"}\n'
    )
    path = tmp_path / f"{ID}.jsonl"
    assert path.read_text(encoding="utf-8") == line
    store.append(ID, FIRST)
    turn = (
        '{"type": "turn", "role": "user", "content": "Let\'s brainstorm: é, 漢字", '
        '"timestamp": "2025-11-22T10:30:00Z", "tokens": 8, "id": "m0", "seq": 0}\n'
    )
    assert path.read_text(encoding="utf-8") == line + turn
    store.update(ID, Change(status="completed"))
    assert path.read_text(encoding="utf-8") == line.replace("active", "completed") + turn
    assert set(files(tmp_path)) == {f"{ID}.jsonl", ".cortext/.gitignore"}


@pytest.mark.req("STORE-11")
def test_the_first_line_of_a_spawn_file_is_the_metadata_after_every_step(tmp_path: Path) -> None:
    store = start(SpawnStore, tmp_path)
    statuses = []
    with store.open(ID) as writer:
        for number, status in enumerate(["active", "interrupted", "active", "completed", "active"]):
            writer.append(Message(role="user", content=f"{number}"))
            writer.update(Change(status=status, force=True))
            lines = [json.loads(line) for line in (tmp_path / f"{ID}.jsonl").read_bytes().splitlines()]
            assert [line["type"] for line in lines] == ["metadata", *["turn"] * (number + 1)]
            assert [line["content"] for line in lines[1:]] == [str(n) for n in range(number + 1)]
            statuses.append(lines[0]["status"])
    assert statuses == ["active", "interrupted", "active", "completed", "active"]


@pytest.mark.req("STORE-01", "STORE-11")
def test_a_chat_session_is_a_folder_of_small_files_and_two_logs(tmp_path: Path) -> None:
    store = start(ChatStore, tmp_path)
    store.append(ID, FIRST, SECOND)
    store.update(ID, Change(summary="They talked.", summary_covers=2, summary_by="m-1"))
    found = files(tmp_path)
    assert set(found) == {f"{ID}/meta.json", f"{ID}/current.jsonl", f"{ID}/summary.json", ".cortext/.gitignore"}
    assert (
        found[f"{ID}/meta.json"]
        == """{
  "session_id": "001-brainstorm-api",
  "created_at": "2025-11-22T10:30:00Z",
  "last_active": "2025-11-22T10:30:15Z",
  "message_count": 2,
  "current_count": 2,
  "archive_count": 0,
  "status": "active",
  "title": "API",
  "agent": "architect",
  "token_count": 10
}
"""
    )
    first, second = found[f"{ID}/current.jsonl"].splitlines()
    assert first == (
        '{"idx": 0, "role": "user", "content": "Let\'s brainstorm: é, 漢字", "timestamp": "2025-11-22T10:30:00Z", '
        '"tokens": 8, "id": "m0", "seq": 0}'
    )
    assert second.startswith('{"idx": 1, "role": "assistant", ')
    summary = json.loads(found[f"{ID}/summary.json"])
    assert list(summary) == [
        "session_id", "summary_text", "embedding", "message_count", "created_at", "last_summarized", "covers", "by",
        "version",
    ]  # fmt: skip
    assert (summary["summary_text"], summary["message_count"], summary["covers"]) == ("They talked.", 2, 2)


@pytest.mark.req("STORE-01")
def test_chat_indexes_start_at_0_in_each_file_after_every_compaction(tmp_path: Path) -> None:
    store = start(ChatStore, tmp_path)

    def indexes(name: str) -> list[tuple[int, int]]:
        lines = (tmp_path / ID / name).read_bytes().splitlines()
        return [(line["idx"], line["seq"]) for line in map(json.loads, lines)]

    store.append(ID, *(Message(role="user", content=str(number)) for number in range(5)))
    store.compact(ID, 2)
    assert indexes("archive.jsonl") == [(0, 0), (1, 1)]
    assert indexes("current.jsonl") == [(0, 2), (1, 3), (2, 4)]
    store.append(ID, Message(role="user", content="5"))
    ChatStore(str(tmp_path)).compact(ID, 5)
    store.append(ID, Message(role="user", content="6"))
    assert indexes("archive.jsonl") == [(n, n) for n in range(5)]
    assert indexes("current.jsonl") == [(0, 5), (1, 6)]
    ChatStore(str(tmp_path)).compact(ID, 99)
    assert indexes("current.jsonl") == []
    store.append(ID, Message(role="user", content="7"))
    assert indexes("current.jsonl") == [(0, 7)]
    meta = json.loads((tmp_path / ID / "meta.json").read_bytes())
    assert (meta["message_count"], meta["current_count"], meta["archive_count"]) == (7, 0, 7)


def test_compacting_nothing_creates_no_archive(tmp_path: Path) -> None:
    store = start(ChatStore, tmp_path)
    store.append(ID, FIRST)
    assert store.compact(ID, 0) == 0
    assert not (tmp_path / ID / "archive.jsonl").exists()


@pytest.mark.req("STORE-04", "STORE-11")
@every_layout
def test_a_new_message_is_one_added_line_in_git(layout: Callable[[str], FileStore], tmp_path: Path) -> None:
    def git(*arguments: str) -> str:
        command = ["git", "-c", "user.name=t", "-c", "user.email=t@t", *arguments]
        return subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout

    git("init", "-q")
    store = start(layout, tmp_path)
    store.append(ID, FIRST)
    git("add", "-A")
    git("commit", "-qm", "one")
    assert ".lock" not in git("ls-files")
    store.append(ID, SECOND)
    [log] = git("ls-files", "*.jsonl").split()
    assert git("diff", "--numstat") == f"1\t0\t{log}\n"
    store.append(ID, FIRST, Message(role="user", content="two lines\nin one", id="m3"))
    assert git("diff", "--numstat") == f"3\t0\t{log}\n"
    assert git("status", "--porcelain") == f" M {log}\n"


@pytest.mark.req("STORE-04")
@every_layout
def test_appending_keeps_the_file_and_every_earlier_byte(layout: Callable[[str], FileStore], tmp_path: Path) -> None:
    store = start(layout, tmp_path)
    [log] = list(tmp_path.rglob("*.jsonl"))
    inode, before = log.stat().st_ino, log.read_bytes()
    for number in range(20):
        store.append(ID, Message(role="user", content="x" * (number + 1)))
        now = log.read_bytes()
        assert now.startswith(before) and now.count(b"\n") == before.count(b"\n") + 1
        assert log.stat().st_ino == inode
        before = now


@pytest.mark.req("STORE-09")
@pytest.mark.parametrize("umask", [0, 0o022, 0o777])
@every_layout
def test_files_are_private_whatever_the_umask(layout: Callable[[str], FileStore], umask: int, tmp_path: Path) -> None:
    root = tmp_path / "new" / "deeper"
    old = os.umask(umask)
    try:
        store = start(layout, root)
        store.append(ID, FIRST, SECOND)
        store.update(ID, Change(status="paused", summary="s", summary_covers=1))
        if not isinstance(store, SpawnStore):
            store.compact(ID, 1)
        if isinstance(store, ChatStore):
            command_line_chat(root).activate("cli", ID)
        logs = list(root.rglob("*.jsonl"))
        logs[0].write_bytes(logs[0].read_bytes() + b"torn")
        store.repair(ID)
        store.restore(store.delete(ID).key)
        store.create(Session(id="other"))
        store.delete("other")
    finally:
        os.umask(old)
    modes: dict[str, int] = {}
    for path in (tmp_path / "new", *(tmp_path / "new").rglob("*")):
        mode = stat.S_IMODE(path.stat().st_mode)
        modes[str(path)] = mode
        assert mode == (0o700 if path.is_dir() else 0o600), f"{path} has {mode:o}"
    assert any(name.endswith(".quarantine") for name in modes) and any(name.endswith("trash.json") for name in modes)


@pytest.mark.req("STORE-10")
@every_layout
def test_a_change_replaces_the_metadata_and_leaves_no_temporary_file(
    layout: Callable[[str], FileStore], tmp_path: Path
) -> None:
    store = start(layout, tmp_path)
    [name] = [path.name for path in tmp_path.rglob("*") if path.name in ("session.json", "meta.json", f"{ID}.jsonl")]
    [path] = tmp_path.rglob(name)
    before, inode = path.read_bytes(), path.stat().st_ino
    with open(path, "rb") as reader:  # a reader that opened the old file can read all of it
        store.update(ID, Change(title="another"))
        assert reader.read() == before
    assert path.stat().st_ino != inode
    assert b"another" in path.read_bytes()
    assert list(tmp_path.rglob("*.tmp")) == []


@pytest.mark.req("STORE-10")
def test_activating_a_chat_keeps_unknown_fields_of_current_json(tmp_path: Path) -> None:
    root = tmp_path / "sessions"
    assert command_line_chat(root).active("cli") is None
    command_line_chat(root).activate("cli", "sess_abc")
    path = root / "current.json"
    assert path.read_text(encoding="utf-8") == '{\n  "session_id": "sess_abc"\n}\n'
    path.write_text('{"chat_id": 7, "session_id": "sess_abc"}', encoding="utf-8")
    command_line_chat(root).activate("cli", "sess_def")
    assert json.loads(path.read_bytes()) == {"chat_id": 7, "session_id": "sess_def"}
    assert command_line_chat(root).active("cli") == "sess_def"


@pytest.mark.req("STORE-06", "STORE-09")
@pytest.mark.parametrize("text", ["", "{", "[]", '"x"', "null", '{"session_id": 5}', '{"session_id": "../../etc"}'])
def test_a_damaged_current_json_means_no_current_session(tmp_path: Path, text: str) -> None:
    (tmp_path / "current.json").write_text(text, encoding="utf-8")
    chats = command_line_chat(tmp_path)
    assert not chats.active("cli")
    chats.activate("cli", "sess_abc")
    assert chats.active("cli") == "sess_abc"


def test_a_conversation_without_a_session_folder_is_not_a_session(tmp_path: Path) -> None:
    folder = tmp_path / "conversations" / DAY / ID
    folder.mkdir(parents=True)
    (folder / "brainstorm.md").write_text("# API\n", encoding="utf-8")
    store = WorkspaceStore(str(tmp_path))
    assert list(store.sessions()) == []
    with pytest.raises(SessionNotFound):
        store.get(ID)


def test_markdown_is_deleted_and_restored_with_its_session(tmp_path: Path) -> None:
    store = start(WorkspaceStore, tmp_path)
    markdown = tmp_path / "conversations" / DAY / ID / "brainstorm.md"
    markdown.write_text("# API\n", encoding="utf-8")
    key = store.delete(ID).key
    assert not markdown.exists()
    store.restore(key)
    assert markdown.read_text(encoding="utf-8") == "# API\n"


def test_a_session_that_moved_to_another_day_is_still_listed(tmp_path: Path) -> None:
    store = start(WorkspaceStore, tmp_path)
    assert [session.id for session in store.sessions()] == [ID]
    other = WorkspaceStore(str(tmp_path))  # another process deletes it and creates it again
    other.delete(ID)
    other.create(Session(id=ID, created_at="2026-01-01T00:00:00Z"))
    assert [session.created_at for session in store.sessions()] == ["2026-01-01T00:00:00Z"]
    assert store.get(ID).created_at == "2026-01-01T00:00:00Z"


@every_layout
def test_a_store_with_a_relative_path_does_not_follow_the_working_folder(
    layout: Callable[[str], FileStore], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    store = layout("store")
    monkeypatch.chdir(tmp_path / "there")
    store.create(Session(id=ID))
    store.append(ID, FIRST)
    assert list((tmp_path / "there").iterdir()) == []
    assert layout(str(tmp_path / "here" / "store")).get(ID).message_count == 1


@every_layout
def test_writing_to_an_unknown_session_creates_no_file(layout: Callable[[str], FileStore], tmp_path: Path) -> None:
    root = tmp_path / "root"
    store = layout(str(root))
    calls: list[Callable[[], Any]] = [
        lambda: store.append("unknown", FIRST),
        lambda: store.delete("unknown"),
        lambda: store.repair("unknown"),
        lambda: store.update("unknown", Change(title="x")),
    ]
    for call in calls:
        with pytest.raises(SessionNotFound):
            call()
    assert not root.exists()


@pytest.mark.req("STORE-05")
@every_layout
def test_a_session_that_is_deleted_while_it_is_read_is_not_found(
    layout: Callable[[str], FileStore], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = layout(str(tmp_path))
    store.create(Session(id="fleeting", created_at="2026-11-15T10:00:00Z"))
    files = store.files_of("fleeting")
    store.delete("fleeting")
    monkeypatch.setattr(store, "files_of", lambda _: files)  # as if found just before the deletion
    with pytest.raises(SessionNotFound):
        store.get("fleeting")
