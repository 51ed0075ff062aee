"""Impossible numbers in a log, in metadata and in a tool's transcript are reported and break nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cortext.model.message import Message
from cortext.model.session import Session
from cortext.model.tokens import MOST
from cortext.store.files.chat import ChatStore
from cortext.store.files.spawn import SpawnStore
from cortext.store.files.store import FileStore
from cortext.store.files.workspace import WorkspaceStore
from cortext.testing.table import every_row
from tests.faces.pond import Pond, served
from tests.support.cli import committed_workspace, cortext, git
from tests.tools.claude_code.corpus import Script

ODD: list[Any] = [2**64, -1, -(2**64), 1.5, float("nan"), float("inf"), True, "many", [], {}, MOST + 1]


def spoil(log: Path) -> int:
    """Put impossible counts and numbers into a log, and more large ones than SQLite can sum; return its length."""
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    while len(lines) < len(ODD) + 1_100:
        lines.append({**lines[-1], "content": f"words {len(lines)}", "id": f"m{len(lines)}", "seq": len(lines)})
    for line, odd in zip(lines, ODD, strict=False):
        line |= {"tokens": odd, "usage": {"output_tokens": odd}}
    for line in lines[len(ODD) :]:
        line["tokens"] = 2**53
    lines[20]["seq"] = 2**64
    lines[21]["timestamp"] = "999999999-01-01T00:00:00Z"
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return len(lines)


@pytest.mark.req("SAFE-07")
def test_a_clone_with_impossible_numbers_breaks_no_command(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    theirs = committed_workspace(tmp_path / "theirs", monkeypatch)
    begun = cortext("new", "brainstorm", "Numbers", cwd=theirs)
    assert begun.code == 0, begun.err
    [metadata] = theirs.rglob("session.json")
    log = metadata.with_name("messages.jsonl")
    line = {"role": "user", "content": "words 0", "timestamp": "2026-11-15T02:00:00Z", "id": "m0", "seq": 0}
    log.write_text(json.dumps(line) + "\n")
    count = spoil(log)
    fields = json.loads(metadata.read_text())
    fields |= {"message_count": 2**64, "token_count": -1, "summary_covers": 2**63}
    metadata.write_text(json.dumps(fields))
    git(theirs, "add", "-A")
    git(theirs, "commit", "-qm", "numbers")
    git(tmp_path, "clone", "-q", "theirs", "ours")
    ours, elsewhere = tmp_path / "ours", tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert cortext("init", "--ai", "claude", cwd=ours).code == 0
    name = log.parent.parent.name
    where = ("--workspace", str(ours))
    for folder in (ours, elsewhere):
        for words in (
            ("list",),
            ("list", "--json"),
            ("search", "words"),
            ("show", name) if folder is ours else ("list", *where),
            ("resume", name, "--print") if folder is ours else ("list", *where),
            ("stats",),
            ("sweep",),
            ("similar", name) if folder is ours else ("stats", "--json"),
            ("index", "rebuild"),
        ):
            done = cortext(*words, cwd=folder)
            assert done.code == 0 and "Error" not in done.err, (words, done.err)
    row = next(row for row in cortext("list", "--json", "--here", cwd=ours).json)
    assert row["message_count"] == count and row["damage"] and row["token_count"] < 2**53
    with served(Pond(home, ours)) as client:
        assert not client("list_sessions").failed
        assert not client("search_sessions", query="words").failed

    report = cortext("doctor", cwd=ours)
    assert report.code == 3 and "message_count is not a count" in report.out and f"repair {name}" in report.out
    assert "tokens out of range" in cortext("repair", name, "--dry-run", cwd=ours).out
    before = [message["content"] for message in cortext("show", name, "--json", cwd=ours).json["messages"]]
    assert cortext("repair", name, cwd=ours).code == 0
    healthy = cortext("doctor", "--json", cwd=ours).json
    assert not [item for store in healthy if store["path"] == str(ours) for item in store["findings"]
                if item["level"] == "damage"]  # fmt: skip
    after = [message["content"] for message in cortext("show", name, "--json", cwd=ours).json["messages"]]
    assert len(before) == count and after == before, "a repair corrects the numbers and keeps every word"


@pytest.mark.req("SAFE-07")
@pytest.mark.parametrize("layout", [WorkspaceStore, SpawnStore, ChatStore])
@every_row("odd", ODD)
def test_an_impossible_count_is_reported_ignored_and_repaired(
    tmp_path: Path, layout: type[FileStore], odd: Any
) -> None:
    store = layout(str(tmp_path))
    store.create(Session(id="s-1"))
    store.append("s-1", Message(role="user", content="one"), Message(role="assistant", content="two"))
    log = next(path for path in tmp_path.rglob("*.jsonl"))
    lines = log.read_text().splitlines()
    fields = json.loads(lines[-1])
    log.write_text("".join(f"{line}\n" for line in [*lines[:-1], json.dumps(fields | {"tokens": odd})]))
    store = layout(str(tmp_path))
    assert [item.kind for item in store.check("s-1")] == ["number"]
    assert store.get("s-1").damage == 1 and [message.content for message in store.read("s-1")] == ["one", "two"]
    assert [(message.id, message.seq) for message in store.read("s-1")][1] == (fields["id"], 1)
    store.repair("s-1")
    assert store.check("s-1") == [] and [message.content for message in store.read("s-1")] == ["one", "two"]
    assert list(tmp_path.rglob("*.quarantine")), "the original line is kept"


@pytest.mark.req("SAFE-07")
def test_a_tool_s_impossible_counts_are_reported_and_its_text_kept(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path)}
    folder = tmp_path / ".claude" / "projects" / "-p"
    folder.mkdir(parents=True)
    script = Script()
    script.user("The question")
    for number, odd in enumerate(ODD):
        script.assistant(f"answer {number}", tokens=odd)
    script.save(folder)
    done = cortext("import", cwd=tmp_path, env=env)
    assert done.code == 0 and "out of range" in done.out, done.out + done.err
    shown = cortext("show", f"claude-{script.key}", "--json", cwd=tmp_path, env=env).json["messages"]
    assert [message["content"] for message in shown][1:] == [f"answer {number}" for number in range(len(ODD))]
    assert all(0 <= message["tokens"] <= MOST for message in shown)
