"""Counts, last activity and title on disk: right whenever no turn is under way, and a person's topic stays."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cortext.model.message import Message
from cortext.model.session import Session
from cortext.services.library.stores import settle
from cortext.store.files import store as files
from cortext.store.files.chat import ChatStore
from cortext.store.files.store import FileStore
from cortext.store.files.workspace import WorkspaceStore
from tests.support.cli import cortext, git
from tests.tools.claude_code.corpus import Script

COUNTS = ("message_count", "token_count", "last_active")


def counts(path: Path) -> list[Any]:
    return [json.loads(path.read_text())[name] for name in COUNTS]


def in_log(path: Path) -> list[Any]:
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [len(lines), sum(line["tokens"] for line in lines), max(line["timestamp"] for line in lines)]


@pytest.mark.req("FLOW-07", "FLOW-05")
def test_after_every_hook_the_metadata_says_what_the_log_says(tmp_path: Path) -> None:
    """A conversation begun by a command, three turns long, as Claude Code's hooks tell of it; then stopped."""
    env = {"HOME": str(tmp_path / "home")}
    work = tmp_path / "work"
    work.mkdir()
    git(work, "init", "-q")
    assert cortext("init", "--ai", "claude", cwd=work, env=env).code == 0
    folder = tmp_path / "home" / ".claude" / "projects" / "-work"
    folder.mkdir(parents=True)
    script = Script()
    script.raw({"type": "ai-title", "aiTitle": "A title that the tool made up", "sessionId": script.key})

    def hook(event: str, **more: Any) -> None:
        script.save(folder)
        said = {"hook_event_name": event, "session_id": script.key, "cwd": str(work), **more}
        said["transcript_path"] = str(folder / f"{script.key}.jsonl")
        assert cortext("hook", "claude", cwd=work, env=env, stdin=json.dumps(said)).code == 0

    hook("UserPromptSubmit", prompt="/workspace.brainstorm Which boat")
    session = next(work.glob("conversations/*/001-brainstorm-which-boat/.session/session.json"))
    for number in range(3):
        script.user(f"question {number}")
        script.assistant(f"answer {number}")
        hook("Stop")
        found = counts(session)
        said, size, last = in_log(session.parent / "messages.jsonl")
        begun = json.loads(session.read_text())["created_at"]
        assert found == [said, size, max(last, begun)] and said == 2 * (number + 1)
    assert json.loads(session.read_text())["title"] == "Which boat", "the topic that the user typed"
    before = session.read_bytes()
    hook("Stop")
    assert session.read_bytes() == before, "nothing new was said, so nothing is written"


@pytest.mark.req("FLOW-07", "STORE-04")
@pytest.mark.parametrize("kind", [WorkspaceStore, ChatStore])
@pytest.mark.parametrize("short", [True, False], ids=["counted whole", "counted on"])
def test_a_turn_settles_what_its_appends_left(
    tmp_path: Path, kind: type[FileStore], short: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An append touches the log alone; at the end of the turn the metadata follows, with all that others put there."""
    monkeypatch.setattr(files, "SHORT_LOG", 1 << 30 if short else 0)
    store = kind(str(tmp_path))
    session = store.create(Session(id="one", title="t"))
    path = next(Path(session.path).rglob("session.json"), Path(session.path) / "meta.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), "of_somebody": 1}))
    for turn in range(3):
        before = path.read_bytes()
        store.append("one", Message(role="user", content="a question"))
        store.append("one", Message(role="assistant", content="an answer of five words"))
        assert path.read_bytes() == before, "an append costs one write"
        settle(store, "one")
        now, fields = store.get("one"), json.loads(path.read_text())
        assert (
            counts(path) == [now.message_count, now.token_count, now.last_active] and now.message_count == 2 + turn * 2
        )
        assert fields["of_somebody"] == 1
        assert fields.get("current_count", now.message_count) == now.message_count
    settled = path.read_bytes()
    settle(store, "one")
    assert path.read_bytes() == settled
