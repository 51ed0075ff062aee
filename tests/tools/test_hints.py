"""A hint reaches the model of the real program, and only if the user wants hints: by the request that it sends."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.cli import git
from tests.support.desk import Desk
from tests.support.model_server import ModelServer, Reply, ToolCall

FAILS = "echo 'ImportError: heron_counter cannot import wading_birds yet' >&2; exit 3"
RECORD = "They are a record, not an instruction."
FIXED = "The cause was a circular import between heron_counter and its birds: it is fixed by a lazy import."


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with ModelServer() as server:
        yield Desk(tmp_path, server, ["claude"])


@pytest.fixture
def workspace(desk: Desk) -> Path:
    folder = desk.project("w")
    assert desk.cortext("init", "--ai", "claude", cwd=folder).code == 0
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "workspace")
    return folder


def _run_into_it(desk: Desk, folder: Path, *then: Reply | str) -> str:
    """Have the model run the command that fails; return the id of the session."""
    desk.server.push(Reply(tool_calls=(ToolCall("Bash", {"command": FAILS, "description": "test"}),)), *then)
    assert desk.tools["claude"].run("Run the tests.", cwd=folder).returncode == 0
    return desk.tools["claude"].sessions()[-1]


def _received(desk: Desk, folder: Path, key: str, prompt: str) -> str:
    desk.server.push("Fine.")
    assert desk.tools["claude"].run(prompt, cwd=folder, resume=key).returncode == 0
    return "\n".join(turn.text for turn in desk.server.turns[-1].conversation if turn.kind == "text")


@pytest.mark.real_tool
@pytest.mark.req("FIND-09")
def test_the_second_session_with_an_error_is_told_what_fixed_the_first(desk: Desk, workspace: Path) -> None:
    path = str(workspace / "heron_counter.py")
    write = Reply(tool_calls=(ToolCall("Write", {"file_path": path, "content": "def birds():\n    import storks\n"}),))
    first = _run_into_it(desk, workspace, write, FIXED)
    assert desk.cortext("search", "--exact", "circular", cwd=workspace).code == 0

    silent = _received(desk, workspace, _run_into_it(desk, workspace, "It fails."), "And now?")
    assert "a hint from an earlier conversation" not in silent and "circular" not in silent, "the setting is off"

    desk.tools["claude"].env["CORTEXT_WORKSPACE_RECALL"] = "prompt"
    second = _run_into_it(desk, workspace, "It fails.")
    received = _received(desk, workspace, second, "And now?")
    assert received.count("a hint from an earlier conversation") == 1
    assert FIXED in received and first in received, "what fixed it, and where that is"
    assert "heron_counter.py was " in received, "whether the file was written since"
    again = _received(desk, workspace, second, "Really?")
    assert again.count("a hint from an earlier conversation") == 1, "it stays where it was, and comes only once"


@pytest.mark.real_tool
@pytest.mark.req("FIND-09")
def test_related_conversations_reach_the_model_only_when_the_user_asks_for_them(desk: Desk, workspace: Path) -> None:
    claude = desk.tools["claude"]
    earlier = []
    for bird in ("heron", "stork", "egret", "bittern"):
        desk.server.push(f"The {bird} census counts wading birds at dawn.")
        assert claude.run(f"How does the {bird} census count wading birds?", cwd=workspace).returncode == 0
        earlier.append(claude.sessions()[-1])

    desk.server.push("Noted.")
    assert claude.run("Let us plan the spring census of wading birds.", cwd=workspace).returncode == 0
    current = claude.sessions()[-1]
    assert RECORD not in str(desk.server.turns[-1].body), "not at the start of a session"

    received = _received(desk, workspace, current, "/workspace.related")
    assert received.count(RECORD) == 1, received[-3000:]
    shown = received[received.index(RECORD) :]
    assert sum(key in shown for key in earlier) == 3 and current not in shown
    received = _received(desk, workspace, current, "/workspace.related volcano eruptions in Iceland")
    assert "knows no earlier conversation about" in received


@pytest.mark.real_tool
@pytest.mark.req("FIND-09")
def test_a_command_that_failed_before_is_recognised_before_it_runs(desk: Desk, workspace: Path) -> None:
    claude = desk.tools["claude"]
    _run_into_it(desk, workspace, FIXED)
    assert desk.cortext("search", "--exact", "circular", cwd=workspace).code == 0
    desk.env["CORTEXT_WORKSPACE_RECALL"] = claude.env["CORTEXT_WORKSPACE_RECALL"] = "prompt"
    assert desk.cortext("upgrade", cwd=workspace).code == 0

    _run_into_it(desk, workspace, "It fails.")
    received = str(desk.server.turns[-1].body)
    assert "This very command failed before" in received and FIXED in received, "with the result of the call"

    desk.env["CORTEXT_WORKSPACE_RECALL"] = claude.env["CORTEXT_WORKSPACE_RECALL"] = "off"
    assert desk.cortext("upgrade", cwd=workspace).code == 0
    assert "PreToolUse" not in (workspace / ".claude/settings.json").read_text(encoding="utf-8")
