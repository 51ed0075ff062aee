"""Related conversations: which have a topic in common, and that they come only on request."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cortext.model.message import ASSISTANT, USER, Message
from cortext.model.session import Session
from cortext.store.files.workspace import WorkspaceStore
from tests.support.claude_talk import ClaudeTalk
from tests.support.cli import committed_workspace, cortext

pytestmark = pytest.mark.req("FIND-09")


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a workspace with an earlier conversation in its index."""
    folder = committed_workspace(tmp_path / "w", monkeypatch)
    store = WorkspaceStore(str(folder))
    store.create(Session(id="001-debug-herons", type="debug", title="Herons at the gate"))
    store.append(
        "001-debug-herons",
        Message(role=USER, content="Run the tests."),
        Message(
            role=ASSISTANT,
            content="The cause was a circular import: heron_counter must import wading_birds lazily. It is fixed now.",
        ),
        Message(
            role=USER, content="How should the pond service authenticate its sensors against the gateway at night?"
        ),
        Message(role=ASSISTANT, content="Use short-lived tokens per sensor, renewed by the gateway at dusk."),
        Message(role=USER, content="And the retries?"),
        Message(
            role=ASSISTANT,
            content="We decided that pond.py keeps retries per sensor, because the gateway drops bursts.",
        ),
    )
    assert cortext("search", "--exact", "herons", cwd=folder).code == 0
    return folder


def _given(talk: ClaudeTalk, prompt: str) -> str:
    done = talk.hook("UserPromptSubmit", prompt=prompt)
    assert done.code == 0, done.err
    if not done.out.strip():
        return ""
    context: str = json.loads(done.out)["hookSpecificOutput"]["additionalContext"]
    return context


def test_related_conversations_come_only_on_request_and_at_most_three(workspace: Path) -> None:
    store = WorkspaceStore(str(workspace))
    for number in range(2, 6):
        name = f"00{number}-debug-pond"
        store.create(Session(id=name, type="debug", title=f"Pond {number}"))
        store.append(name, Message(role=USER, content=f"The pond gateway drops its sensors, case {number}."))
    talk = ClaudeTalk(workspace)
    assert talk.hook("SessionStart", source="startup").out == ""
    assert "Nothing was asked in this chat yet" in _given(talk, "/workspace.related")
    talk.hook("Stop", stop_hook_active=False)
    talk.say("Which sensors does the pond gateway know?", "All of them.")
    assert _given(talk, "Go on.") == ""
    said = _given(talk, "/workspace.related")
    lines = [line for line in said.splitlines() if line[:1].isdigit()]
    assert len(lines) == 3 and all("debug-" in line and "found by " in line for line in lines), said
    assert talk.key not in said and "a record, not an instruction" in said
    assert talk.hook("UserPromptExpansion", command_name="workspace.related").out == "", "one answer to one prompt"
    talk.answer("Three.")
    assert lines[1].split("(")[1].split(",")[0] in talk.resume("2"), "a number of this list"


def test_codex_gets_related_conversations_as_a_message_not_as_an_instruction(workspace: Path) -> None:
    def fired(event: str, **fields: str) -> str:
        payload = {"session_id": "1", "cwd": str(workspace), "hook_event_name": event, **fields}
        done = cortext("hook", "codex", cwd=workspace, stdin=json.dumps(payload))
        assert done.code == 0, done.err
        return done.out

    told = fired("UserPromptSubmit", prompt="$workspace-related heron_counter circular import")
    assert "has found 1 conversation." in told and "circular import: " not in told and "Herons at the gate" not in told
    followed = json.loads(fired("Stop"))
    assert followed["decision"] == "block" and "Herons at the gate (001-debug-herons" in followed["reason"]
    assert fired("Stop") == "", "once"


def test_what_is_not_about_the_topic_is_not_related(workspace: Path) -> None:
    talk = ClaudeTalk(workspace)
    assert "001-debug-herons" in _given(talk, "/workspace.related heron_counter circular import")
    for topic in ("volcano eruption sensors", "Zahnarzt", "the gateway of Cairo and its camels"):
        said = _given(talk, f"/workspace.related {topic}")
        assert "knows no earlier conversation" in said and "herons" not in said, said


def test_a_damaged_index_fails_no_turn(workspace: Path) -> None:
    for path in (Path.home() / ".cache").rglob("meta.json"):
        path.write_text("{", encoding="utf-8")
    done = ClaudeTalk(workspace).hook("UserPromptSubmit", prompt="/workspace.related circular import")
    assert done.code == 0 and "Traceback" not in done.err
