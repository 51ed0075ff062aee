"""`cortext resume` in a real terminal opens the tool's own screen with the conversation in it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.cli import SCRIPTS, git
from tests.support.desk import Desk
from tests.support.model_server import ModelServer
from tests.support.screen import Screen

ANSWER = "The heron answers: I have picked it up where we stood."


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with ModelServer() as server:
        yield Desk(tmp_path, server)


def _workspace(desk: Desk) -> Path:
    """Create a workspace with one conversation that no tool here knows."""
    folder = desk.project("w")
    done = desk.cortext("init", "--ai", "claude", cwd=folder)
    assert done.code == 0, done.err
    assert desk.cortext("new", "plan", "Herons at the pond", cwd=folder).code == 0
    log = next(folder.glob("conversations/*/*/.session/messages.jsonl"))
    lines = (
        '{"role": "user", "content": "How many herons are at the pond?", "timestamp": "2026-11-14T10:00:00Z"}\n'
        '{"role": "assistant", "content": "I counted seventeen herons.", "timestamp": "2026-11-14T10:00:05Z"}\n'
    )
    log.write_text(lines, encoding="utf-8")
    # A short command, so that the earlier turns are still on the screen when the answer arrives.
    (folder / ".workspace" / "commands" / "plan.md").write_text("# Plan\n\nTopic: {arguments}\n", encoding="utf-8")
    for name in (".mcp.json", ".claude/settings.json"):  # the tool would first ask the user to approve these
        (folder / name).unlink()
    return folder


def _sync_until_captured(desk: Desk, name: str, folder: Path) -> None:
    log = next(folder.glob("conversations/*/*/.session/messages.jsonl"))
    deadline = time.monotonic() + 120
    while "Thank you very much." not in log.read_text(encoding="utf-8"):
        assert time.monotonic() < deadline
        assert desk.cortext("sync", "--from", name, cwd=folder).code == 0


@pytest.mark.real_tool
@pytest.mark.req("SESS-004a", "SESS-004d", "TOOL-01", "TOOL-02", "FLOW-09", "TRUE-02")
# Every pair opens a screen (`test_pairs.py`); here the conversation is one of a workspace that no tool knows.
@pytest.mark.parametrize(
    ("name", "home"),
    [
        ("claude", "used"),
        *(pytest.param(name, "fresh", marks=pytest.mark.repeats) for name in ("claude", "codex")),
        *(pytest.param(name, "used", marks=pytest.mark.repeats) for name in ("gemini", "opencode", "codex")),
    ],
)
def test_the_tools_own_screen_opens_with_the_conversation_in_it(
    desk: Desk, tmp_path: Path, name: str, home: str
) -> None:
    folder = _workspace(desk)
    if home == "used":
        desk.use(name, folder)
    # Twice, because in a used home Gemini CLI first asks the model for a title of its earlier session.
    desk.server.push(ANSWER, ANSWER)
    command = [str(SCRIPTS / "cortext"), "resume", "herons", "--ai", name]
    with Screen(tmp_path, command, desk.env, folder, "150x70") as screen:
        desk.server.wait_for(lambda request: "How many herons are at the pond?" in str(request.body), 170)
        screen.wait_for("where we stood", timeout=120)
        request = next(turn for turn in desk.server.turns if "How many herons" in str(turn.body))
        texts = [turn.text for turn in request.conversation if turn.kind == "text"]
        sent = "\n".join(texts)
        assert sent.index("How many herons are at the pond?") < sent.index("I counted seventeen herons.")
        assert "[RESUMED CONVERSATION]" in sent
        shown = screen.wait_for("seventeen herons", timeout=20)
        assert "herons" in shown
        # No hook runs here: the conversation becomes active in this tool when the user's next message is captured.
        desk.say(screen, "Thank you very much.")
        _sync_until_captured(desk, name, folder)
    row = desk.cortext("list", "--here", "--json", cwd=folder).json[0]
    assert row["status"] == "active"
    assert row["tool"] == name
    assert git(folder, "status", "--porcelain") != ""
    receipt = desk.cortext("show", "1", cwd=folder).out
    assert "still holds 2 of 2 after the first turn" in receipt, "the tool's own file was compared"
