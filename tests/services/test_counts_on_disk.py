"""Counts, last activity and title on disk are correct between turns, and a title that a person chose stays."""

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
def test_after_every_hook_the_metadata_agrees_with_the_log(tmp_path: Path) -> None:
    """A conversation begun by a command, three turns long, as Claude Code's hooks report it."""
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
        fields = {"hook_event_name": event, "session_id": script.key, "cwd": str(work), **more}
        fields["transcript_path"] = str(folder / f"{script.key}.jsonl")
        assert cortext("hook", "claude", cwd=work, env=env, stdin=json.dumps(fields)).code == 0

    hook("UserPromptSubmit", prompt="/workspace.brainstorm Which boat")
    session = next(work.glob("conversations/*/001-brainstorm-which-boat/.session/session.json"))
    for number in range(3):
        script.user(f"question {number}")
        script.assistant(f"answer {number}")
        hook("Stop")
        found = counts(session)
        messages, size, last = in_log(session.parent / "messages.jsonl")
        created = json.loads(session.read_text())["created_at"]
        assert found == [messages, size, max(last, created)] and messages == 2 * (number + 1)
    assert json.loads(session.read_text())["title"] == "Which boat", "the topic that the user typed"
    before = session.read_bytes()
    hook("Stop")
    assert session.read_bytes() == before, "without new messages, nothing is written"


@pytest.mark.req("FLOW-07", "STORE-04")
@pytest.mark.parametrize("kind", [WorkspaceStore, ChatStore])
@pytest.mark.parametrize("short", [True, False], ids=["counted again", "counted incrementally"])
def test_the_metadata_is_updated_at_the_end_of_a_turn(
    tmp_path: Path, kind: type[FileStore], short: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An append writes only to the log. The update at the end of the turn keeps fields of other programs."""
    monkeypatch.setattr(files, "SHORT_LOG", 1 << 30 if short else 0)
    store = kind(str(tmp_path))
    session = store.create(Session(id="one", title="t"))
    path = next(Path(session.path).rglob("session.json"), Path(session.path) / "meta.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), "of_another_program": 1}))
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
        assert fields["of_another_program"] == 1
        assert fields.get("current_count", now.message_count) == now.message_count
    settled = path.read_bytes()
    settle(store, "one")
    assert path.read_bytes() == settled
