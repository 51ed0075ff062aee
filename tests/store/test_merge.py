"""Merging two sides that both continued a session keeps every message once, and records where they diverged."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest

from cortext.model.message import Message
from cortext.model.session import Change, Session
from cortext.model.threads import thread
from cortext.store.base import UNREADABLE
from cortext.store.files.merge import merge_logs, merge_metadata
from cortext.store.files.workspace import WorkspaceStore
from tests.support.cli import cortext, git

DAY = "2026-01-02T03:04:05.000Z"
LOG = "conversations/2026-01-02/001-x/.session/messages.jsonl"


def _store(root: Path) -> WorkspaceStore:
    store = WorkspaceStore(str(root))
    store.create(Session(id="001-x", type="plan", created_at=DAY))
    return store


def _append(store: WorkspaceStore, *texts: str) -> None:
    for text in texts:
        store.append("001-x", Message(role="user", content=text))


def _texts(root: Path) -> list[str]:
    return [message.content for message in WorkspaceStore(str(root)).read("001-x")]


@pytest.mark.req("STORE-12")
def test_two_hundred_random_merges_lose_and_duplicate_nothing(tmp_path: Path) -> None:
    chance = random.Random(7)
    for round_number in range(200):
        base, ours, theirs = (tmp_path / f"{round_number}-{side}.jsonl" for side in ("base", "ours", "theirs"))
        lines = [_line(seq, f"b{seq}") for seq in range(chance.randint(0, 12))]
        base.write_text("".join(lines), encoding="utf-8")
        sides = {}
        for path, name in ((ours, "o"), (theirs, "t")):
            more = [_line(len(lines) + seq, f"{name}{seq}") for seq in range(chance.randint(0, 9))]
            sides[name] = [json.loads(line)["id"] for line in more]
            path.write_text("".join(lines + more), encoding="utf-8")
        merge_logs(str(base), str(ours), str(theirs))
        found = [json.loads(line) for line in ours.read_text(encoding="utf-8").splitlines()]
        assert [record["id"] for record in found] == [json.loads(x)["id"] for x in lines] + sides["o"] + sides["t"]
        assert [record["seq"] for record in found] == list(range(len(found)))
        forks = [record for record in found if (record.get("extra") or {}).get("forked_from") is not None]
        assert len(forks) == (1 if sides["o"] and sides["t"] else 0)


def _line(seq: int, name: str) -> str:
    record = {"role": "user", "content": f"said {name}", "timestamp": DAY, "tokens": 1, "id": f"id-{name}", "seq": seq}
    return json.dumps(record) + "\n"


@pytest.mark.req("STORE-12")
def test_merging_again_changes_nothing(tmp_path: Path) -> None:
    base, ours, theirs = (tmp_path / side for side in ("base", "ours", "theirs"))
    base.write_text(_line(0, "a"), encoding="utf-8")
    ours.write_text(_line(0, "a") + _line(1, "b"), encoding="utf-8")
    theirs.write_text(_line(0, "a") + _line(1, "c"), encoding="utf-8")
    merge_logs(str(base), str(ours), str(theirs))
    once = ours.read_bytes()
    merge_logs(str(base), str(ours), str(theirs))
    assert ours.read_bytes() == once


@pytest.mark.req("STORE-12")
def test_damaged_lines_of_both_sides_are_kept_for_repair(tmp_path: Path) -> None:
    base, ours, theirs = (tmp_path / side for side in ("base", "ours", "theirs"))
    base.write_text(_line(0, "a"), encoding="utf-8")
    ours.write_text(_line(0, "a") + "{broken ours\n", encoding="utf-8")
    theirs.write_text(_line(0, "a") + "{broken theirs\n" + _line(1, "c"), encoding="utf-8")
    merge_logs(str(base), str(ours), str(theirs))
    text = ours.read_text(encoding="utf-8")
    assert "{broken ours\n" in text
    assert "{broken theirs\n" in text
    assert "said c" in text
    store = _store(tmp_path / "w")
    (tmp_path / "w" / LOG).write_bytes(ours.read_bytes())
    assert [item.kind for item in store.check("001-x")] == [UNREADABLE, UNREADABLE]


@pytest.mark.req("STORE-12")
def test_messages_that_one_side_archived_are_not_brought_back(tmp_path: Path) -> None:
    base, ours, theirs = (tmp_path / side for side in ("base", "ours", "theirs"))
    base.write_text(_line(0, "a") + _line(1, "b"), encoding="utf-8")
    ours.write_text(_line(1, "b") + _line(2, "c"), encoding="utf-8")
    theirs.write_text(_line(0, "a") + _line(1, "b") + _line(2, "d"), encoding="utf-8")
    merge_logs(str(base), str(ours), str(theirs))
    found = [json.loads(line)["id"] for line in ours.read_text(encoding="utf-8").splitlines()]
    assert found == ["id-b", "id-c", "id-d"]


@pytest.mark.req("STORE-12")
def test_metadata_is_merged_field_by_field(tmp_path: Path) -> None:
    base, ours, theirs = (tmp_path / side for side in ("base", "ours", "theirs"))
    base_fields = {
        "status": "active",
        "title": "T",
        "created_at": "2026-01-02",
        "last_active": "1",
        "message_count": 4,
        "agent_config": {"tools": ["a"], "model": "m"},
        "unknown": 1,
    }
    _write(base, base_fields)
    our_fields = {
        **base_fields,
        "title": "Ours",
        "last_active": "2",
        "message_count": 6,
        "agent_config": {"tools": ["a", "b"], "model": "m"},
    }
    their_fields = {
        **base_fields,
        "status": "completed",
        "title": "Theirs",
        "last_active": "3",
        "message_count": 5,
        "agent_config": {"tools": ["a", "c"], "model": "n"},
        "unknown": 2,
    }
    _write(ours, our_fields)
    _write(theirs, their_fields)
    merge_metadata(str(base), str(ours), str(theirs))
    merged = json.loads(ours.read_text(encoding="utf-8"))
    assert merged["title"] == "Theirs", "both changed it: the side that was active last wins"
    assert merged["status"] == "completed"
    assert merged["message_count"] == 7
    assert merged["agent_config"] == {"tools": ["a", "b", "c"], "model": "n"}
    assert merged["unknown"] == 2


def _write(path: Path, fields: dict[str, object]) -> None:
    path.write_text(json.dumps(fields), encoding="utf-8")


@pytest.mark.req("STORE-12")
def test_git_pull_merges_two_clones_that_both_continued(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    first.mkdir()
    assert cortext("init", "--ai", "claude", cwd=first).code == 0
    store = _store(first)
    _append(store, "common one", "common two")
    git(first, "add", ".")
    git(first, "commit", "-qm", "start")
    git(tmp_path, "clone", "-q", str(first), str(second))
    assert cortext("upgrade", cwd=second).code == 0, "upgrade registers the merge driver in a clone"
    _append(store, "first continues")
    store.update("001-x", Change(status="paused"))
    git(first, "commit", "-qam", "first")
    other = WorkspaceStore(str(second))
    _append(other, "second continues", "further")
    git(second, "commit", "-qam", "second")
    git(second, "pull", "-q", "--no-rebase", "--no-edit", str(first), "HEAD")
    assert _texts(second) == ["common one", "common two", "second continues", "further", "first continues"]
    merged = WorkspaceStore(str(second))
    assert merged.check("001-x") == []
    assert merged.get("001-x").status == "paused"
    messages = list(merged.read("001-x"))
    assert (messages[4].extra or {})["forked_from"] == messages[1].id
    assert len(thread(messages)) == 5
    assert git(second, "status", "--porcelain") == ""
