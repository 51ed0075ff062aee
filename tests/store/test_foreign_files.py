"""Files that other programs wrote from the description of the formats, with only the fields shown there."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cortext.io import durable
from cortext.model.message import Message
from cortext.model.session import AgentConfig, Change, Session
from cortext.store.files.chat import ChatStore
from cortext.store.files.spawn import SpawnStore
from cortext.store.files.store import FileStore
from cortext.store.files.workspace import WorkspaceStore
from tests.store.conformance.kit import fields_of_each

pytestmark = pytest.mark.usefixtures("no_flush")
ID = "001-brainstorm-api-design"
TURNS = [
    {"role": "user", "content": "Let's brainstorm API design", "timestamp": "2025-11-22T10:30:00Z"},
    {"role": "assistant", "content": "Great! What's the core problem...", "timestamp": "2025-11-22T10:30:15Z"},
    {"role": "user", "content": "Great!", "timestamp": "2025-11-22T10:31:00Z"},
]
SESSION = {
    "version": "1.0",
    "conversation_id": ID,
    "conversation_type": "brainstorm",
    "status": "active",
    "created_at": "2025-11-22T10:30:00Z",
    "last_active": "2025-11-22T11:45:00Z",
    "message_count": 24,
    "agent_config": {
        "command": "/workspace.brainstorm",
        "system_prompt_hash": "sha256:abc123...",
        "model": "claude-sonnet-4-5-20250929",
        "tools": ["mcp__cortext__search_workspace", "mcp__cortext__get_context"],
    },
    "context_summary": "Discussing REST vs GraphQL for internal APIs, leaning toward REST for simplicity",
}
META = {
    "session_id": ID,
    "created_at": "2026-02-22T10:00:00Z",
    "last_active": "2026-02-22T12:30:00Z",
    "message_count": 5,
    "current_count": 3,
    "archive_count": 2,
}
SUMMARY = {
    "session_id": ID,
    "summary_text": "Discussed Python async patterns",
    "embedding": [0.25, -0.5, 1e-9],
    "message_count": 5,
    "created_at": "2026-02-22T12:00:00Z",
    "last_summarized": "2026-02-22T12:10:00Z",
}


def write_lines(path: Path, records: list[dict[str, Any]], **more: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps({**more, **record}) + "\n" for record in records), encoding="utf-8")


def workspace(root: Path) -> FileStore:
    folder = root / "conversations" / "2025-11-22" / ID / ".session"
    write_lines(folder / "messages.jsonl", TURNS)
    (folder / "session.json").write_text(json.dumps(SESSION, indent=2), encoding="utf-8")
    return WorkspaceStore(str(root))


def spawn(root: Path) -> FileStore:
    first = {"type": "metadata", "session_id": ID, "agent": "qa-test", "created_at": "2025-11-22T10:30:00Z"}
    write_lines(root / f"{ID}.jsonl", [first, *({**turn, "type": "turn", "tokens": 7} for turn in TURNS)])
    return SpawnStore(str(root))


def chat(root: Path) -> FileStore:
    def indexed(turns: list[dict[str, str]]) -> list[dict[str, Any]]:
        return [{"idx": number, **turn, "embedding": [0.5, number]} for number, turn in enumerate(turns)]

    folder = root / ID
    write_lines(folder / "current.jsonl", indexed(TURNS))
    write_lines(
        folder / "archive.jsonl", indexed([{**turn, "content": f"older {turn['content']}"} for turn in TURNS[:2]])
    )
    (folder / "meta.json").write_text(json.dumps(META), encoding="utf-8")
    (folder / "summary.json").write_text(json.dumps(SUMMARY), encoding="utf-8")
    return ChatStore(str(root))


FOREIGN: list[Callable[[Path], FileStore]] = [workspace, spawn, chat]
every_foreign = pytest.mark.parametrize("foreign", FOREIGN, ids=["workspace", "spawn", "chat"])


def log_of(root: Path) -> Path:
    [path] = [path for name in ("messages.jsonl", f"{ID}.jsonl", "current.jsonl") for path in root.rglob(name)]
    return path


@pytest.mark.req("STORE-02", "STORE-08")
@every_foreign
def test_a_file_with_only_documented_fields_loads_with_stable_ids(
    foreign: Callable[[Path], FileStore], tmp_path: Path
) -> None:
    store = foreign(tmp_path)
    count = 5 if foreign is chat else 3
    session = store.get(ID)
    assert (session.id, session.status, session.message_count, session.damage) == (ID, "active", count, 0)
    messages = list(store.read(ID))
    assert [message.seq for message in messages] == list(range(count))
    assert [message.content for message in messages[-3:]] == [turn["content"] for turn in TURNS]
    assert len({message.id for message in messages} - {""}) == count
    assert fields_of_each(store.tail(ID, 2)) == fields_of_each(messages[-2:])
    assert fields_of_each(store.read(ID)) == fields_of_each(messages)
    assert store.check(ID) == []


@pytest.mark.req("STORE-02")
def test_the_documented_metadata_fields_are_understood(tmp_path: Path) -> None:
    first = workspace(tmp_path / "w").get(ID)
    assert (first.type, first.created_at, first.last_active) == (
        "brainstorm",
        SESSION["created_at"],
        SESSION["last_active"],
    )
    assert first.agent_config == AgentConfig(**SESSION["agent_config"])  # type: ignore[arg-type]
    assert first.summary == SESSION["context_summary"]
    second = spawn(tmp_path / "s").get(ID)
    assert (second.agent, second.created_at, second.token_count) == ("qa-test", "2025-11-22T10:30:00Z", 21)
    third = chat(tmp_path / "c").get(ID)
    assert (third.created_at, third.summary, third.summary_covers) == (META["created_at"], SUMMARY["summary_text"], 5)


@pytest.mark.req("STORE-04", "STORE-08")
@every_foreign
@pytest.mark.parametrize("newline", [True, False], ids=["ended", "no newline at the end"])
def test_appending_to_a_foreign_file_changes_no_number_or_id(
    foreign: Callable[[Path], FileStore], newline: bool, tmp_path: Path
) -> None:
    store = foreign(tmp_path)
    log = log_of(tmp_path)
    if not newline:
        log.write_bytes(log.read_bytes().removesuffix(b"\n"))
    before, messages = log.read_bytes(), fields_of_each(store.read(ID))
    [added] = store.append(ID, Message(role="assistant", content="ours"))
    assert added.seq == len(messages)
    after = log.read_bytes()
    assert after.startswith(before) and after.count(b"\n") == before.count(b"\n") + (1 if newline else 2)
    assert fields_of_each(store.read(ID)) == [*messages, *fields_of_each([added])]
    assert store.check(ID) == []
    lines = [json.loads(line) for line in after.splitlines()]
    assert lines[-1]["content"] == "ours"
    if foreign is chat:
        assert [line["idx"] for line in lines] == [0, 1, 2, 3]


@pytest.mark.req("STORE-02")
@every_foreign
def test_unknown_fields_survive_a_change_of_status(foreign: Callable[[Path], FileStore], tmp_path: Path) -> None:
    store = foreign(tmp_path)
    unknown = {"zebra": {"nested": [1, None, 2.5, "é"]}, "big": 2**70, "aardvark": False}
    if foreign is spawn:
        log = log_of(tmp_path)
        first, rest = log.read_bytes().split(b"\n", 1)
        log.write_bytes(json.dumps({**json.loads(first), **unknown}).encode() + b"\n" + rest)
    else:
        [path] = [*tmp_path.rglob("session.json"), *tmp_path.rglob("meta.json")]
        fields = json.loads(path.read_bytes())
        if foreign is workspace:
            fields["agent_config"]["temperature"] = {"deep": 0.5}
        path.write_text(json.dumps({**unknown, **fields}), encoding="utf-8")
    messages = fields_of_each(store.read(ID))
    assert store.get(ID).extra == unknown
    store.update(ID, Change(status="completed"))
    store.update(ID, Change(agent_config=AgentConfig(model="m-2"), extra={"ours": 1}))
    session = type(store)(str(tmp_path)).get(ID)
    assert (session.status, session.extra) == ("completed", {**unknown, "ours": 1})
    assert fields_of_each(store.read(ID)) == messages
    if foreign is workspace:
        [path] = tmp_path.rglob("session.json")
        config = json.loads(path.read_bytes())["agent_config"]
        assert config == {
            "command": "", "system_prompt_hash": "", "model": "m-2", "tools": [], "temperature": {"deep": 0.5},
        }  # fmt: skip


@pytest.mark.req("STORE-02", "STORE-11")
def test_the_keys_of_a_foreign_metadata_file_keep_their_order(tmp_path: Path) -> None:
    store = workspace(tmp_path)
    store.update(ID, Change(status="paused"))
    [path] = tmp_path.rglob("session.json")
    fields = json.loads(path.read_bytes())
    assert list(fields)[: len(SESSION)] == list(SESSION)
    assert {name: fields[name] for name in SESSION if name not in ("status", "message_count")} == {
        name: value for name, value in SESSION.items() if name not in ("status", "message_count")
    }


@pytest.mark.req("STORE-02")
@pytest.mark.parametrize("unexpected", [None, 5, "text", ["x"], {"x": 1}])
def test_a_field_of_an_unexpected_type_affects_no_other_field(tmp_path: Path, unexpected: Any) -> None:
    store = workspace(tmp_path)
    [path] = tmp_path.rglob("session.json")
    fields = json.loads(path.read_bytes())
    fields["agent_config"]["model"] = unexpected
    fields["continuation"] = unexpected
    path.write_text(json.dumps(fields), encoding="utf-8")
    assert store.get(ID).agent_config.command == "/workspace.brainstorm"
    store.update(ID, Change(status="paused"))
    after = json.loads(path.read_bytes())
    assert after["agent_config"] == fields["agent_config"]
    assert after["continuation"] == unexpected


@pytest.mark.req("STORE-02", "STORE-03")
@pytest.mark.parametrize("foreign", [workspace, chat], ids=["workspace", "chat"])
def test_unknown_fields_of_messages_survive_a_compaction(foreign: Callable[[Path], FileStore], tmp_path: Path) -> None:
    store = foreign(tmp_path)
    log = log_of(tmp_path)
    extra = {"mood": {"level": [1.5, None]}, "big": 2**70}
    write_lines(log, [{**turn, **extra} for turn in TURNS])
    messages = fields_of_each(store.read(ID))
    moved = store.compact(ID, len(messages) - 1)
    assert moved == 2
    assert fields_of_each(store.read(ID)) == messages
    [archive] = tmp_path.rglob("archive.jsonl")
    lines = [json.loads(line) for path in (archive, log) for line in path.read_bytes().splitlines()][-3:]
    assert [{name: line[name] for name in extra} for line in lines] == [extra] * 3
    assert [line["seq"] for line in lines] == [message["seq"] for message in messages[-3:]]
    assert store.append(ID, Message(role="user", content="on"))[0].seq == len(messages)


def snapshots_before_each_replacement(root: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Return a list that grows by a copy of the store before each replacement of a file, as a crash would leave it."""
    snapshots: list[Path] = []
    replace = durable.replace_file

    def copy_and_replace(path: str, blocks: Any, **options: Any) -> None:
        target = root.parent / f"{root.name}-snapshot{len(snapshots)}"
        shutil.copytree(root, target)
        snapshots.append(target)
        replace(path, blocks, **options)

    monkeypatch.setattr(durable, "replace_file", copy_and_replace)
    return snapshots


@pytest.mark.req("STORE-03")
def test_an_interrupted_compaction_of_a_foreign_chat_duplicates_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = chat(tmp_path)
    messages = fields_of_each(store.read(ID))
    snapshots = snapshots_before_each_replacement(tmp_path, monkeypatch)
    store.compact(ID, 4)
    assert len(snapshots) >= 2, "numbers are added to the log first, then the log is shortened"
    for root in (*snapshots, tmp_path):
        assert fields_of_each(ChatStore(str(root)).read(ID)) == messages
        assert ChatStore(str(root)).check(ID) == []
    monkeypatch.undo()
    for root in snapshots:
        ChatStore(str(root)).compact(ID, 4)
        assert fields_of_each(ChatStore(str(root)).read(ID)) == messages
    assert log_of(tmp_path).read_bytes().count(b"\n") == 1


@pytest.mark.req("STORE-03")
def test_an_interrupted_compaction_duplicates_no_record_about_a_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ChatStore(str(tmp_path))
    store.create(Session(id=ID))
    stored = store.append(ID, *(Message(role="user", content=str(number)) for number in range(4)))
    records: list[dict[str, object]] = [{"type": "embedding", "message_id": each.id, "n": each.seq} for each in stored]
    store.annotate(ID, *records)
    snapshots = snapshots_before_each_replacement(tmp_path, monkeypatch)
    store.compact(ID, 2)
    monkeypatch.undo()
    assert any((root / ID / "archive.jsonl").exists() for root in snapshots), "interrupted between the files"
    for root in (*snapshots, tmp_path):
        reopened = ChatStore(str(root))
        assert sorted(reopened.annotations(ID), key=lambda record: str(record["n"])) == records
        reopened.compact(ID, 3)
        assert sorted(reopened.annotations(ID), key=lambda record: str(record["n"])) == records
        assert fields_of_each(reopened.read(ID)) == fields_of_each(stored)


@pytest.mark.req("STORE-02")
def test_a_foreign_summary_keeps_its_embedding_until_its_text_changes(tmp_path: Path) -> None:
    store = chat(tmp_path)
    path = tmp_path / ID / "summary.json"
    before = path.read_bytes()
    store.update(ID, Change(status="paused", title="named"))
    assert path.read_bytes() == before
    store.update(ID, Change(summary_covers=4))
    assert json.loads(path.read_bytes())["embedding"] == SUMMARY["embedding"]
    store.update(ID, Change(summary="Something else", summary_covers=5))
    assert json.loads(path.read_bytes())["embedding"] is None
    assert json.loads(path.read_bytes())["created_at"] == SUMMARY["created_at"]


@pytest.mark.req("STORE-13")
def test_content_blocks_of_the_model_apis_are_read_completely(tmp_path: Path) -> None:
    store = workspace(tmp_path)
    blocks: list[Any] = [
        "bare",
        {"type": "text", "text": "Hello"},
        {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "ls"}},
        {"type": "image", "source": {"type": "base64", "data": "AAAA"}},
        {"type": 5, "odd": True},
        None,
    ]
    write_lines(log_of(tmp_path), [{"role": "assistant", "content": blocks}, {"role": "user", "content": {"a": 1}}])
    first, second = store.read(ID)
    assert first.text == "bare\n\nHello" and first.parts is not None
    assert [part.type for part in first.parts] == ["text", "text", "tool_use", "image", "unknown", "unknown"]
    assert first.parts[2].input == {"command": "ls"}
    assert first.parts[3].data == {"source": {"type": "base64", "data": "AAAA"}}
    assert first.parts[4].data == {"type": 5, "odd": True}
    assert second.text == '{"a": 1}'
    assert store.check(ID) == []


@pytest.mark.req("STORE-06")
@pytest.mark.parametrize("regular", [True, False], ids=["decoded by block", "decoded by line"])
def test_a_record_with_a_role_is_a_message_whatever_its_type(tmp_path: Path, regular: bool) -> None:
    store = workspace(tmp_path)
    record = {"type": "assistant", "role": "assistant", "content": "kept", "id": "a", "seq": 0}
    irregular: dict[str, Any] = {} if regular else {"partial": "maybe"}
    other = {"type": "progress", "note": "no role: another kind of record"}
    write_lines(log_of(tmp_path), [{**record, **irregular}, other])
    assert [message.content for message in store.read(ID)] == ["kept"]
    assert store.check(ID) == []


@pytest.mark.req("STORE-07")
@pytest.mark.parametrize("kind", [WorkspaceStore, SpawnStore, ChatStore])
def test_sessions_may_be_on_another_file_system_than_the_control_folder(
    kind: type[FileStore], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`conversations/` may be a mount point: a rename across it fails, so the new version is copied."""

    def rename(source: str, target: str) -> None:
        if os.path.dirname(source) != os.path.dirname(target):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        os.rename(source, target)

    monkeypatch.setattr(durable.calls, "rename", rename)
    store = kind(str(tmp_path))
    store.create(Session(id=ID))
    store.append(ID, Message(role="user", content="kept"))
    assert store.update(ID, Change(title="Herons")).title == "Herons"
    assert [message.content for message in kind(str(tmp_path)).read(ID)] == ["kept"]
    assert kind(str(tmp_path)).get(ID).title == "Herons"
    assert list(tmp_path.rglob("*.tmp")) == []
