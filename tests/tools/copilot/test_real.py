"""The adapter with the real GitHub Copilot CLI and a model server on loopback that records its requests."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.support.desk import Desk
from tests.support.model_server import Request
from tests.support.screen import ShellScreen
from tests.support.waiting import wait_until
from tests.tools.real_flow import RealFlow, files_in

from cortext.model.message import Message
from cortext.services.library.stores import StoredConversation
from cortext.services.resume.planning import Plan

pytestmark = pytest.mark.real_tool


class TestCopilot(RealFlow):
    name = "copilot"
    sessions = ".copilot"
    targets = ("claude", "gemini")
    errors = (False, False, False)

    def check_imported(self, conversation: StoredConversation, messages: list[Message]) -> None:
        assert {part.name for message in messages for part in message.parts_of("tool_result")} == {"bash"}
        assert {message.tokens for message in messages if message.role == "assistant"} == {5}
        assert conversation.session.title.startswith("First words to copilot")

    def check_resumed(self, desk: Desk, plan: Plan, request: Request, project: Path) -> None:
        kept = (desk.home / ".copilot/session-state" / plan.key / "workspace.yaml").read_text(encoding="utf-8")
        assert "Herons" in kept, "the title in its own list"

    @pytest.mark.req("TOOL-05", "FLOW-01", "FLOW-09")
    def test_its_hooks_keep_the_conversation_and_start_one_by_a_skill(self, desk: Desk, tmp_path: Path) -> None:
        """The project is set up for Claude Code, too, whose hooks and commands Copilot also reads."""
        folder = desk.project(tmp_path.name)  # a second run of the test needs another name
        (folder / ".github").mkdir()
        (folder / ".github/mcp.json").write_text('{"mcpServers": {}}', encoding="utf-8")
        before = files_in(folder)
        done = desk.cortext("init", "--ai", "copilot,claude", cwd=folder)
        assert done.code == 0, done.err
        desk.server.push("A heron it is.", "Seventeen.")
        with ShellScreen(desk.home.parent, desk.tools["copilot"].interactive(), desk.env, folder, "150x60") as screen:
            screen.wait_for("/ commands", timeout=60)
            screen.type("/workspace.plan a pond for herons")
            screen.wait_for("/workspace.plan a pond for herons")
            screen.press("Enter")
            screen.wait_for("A heron it is.", timeout=60)
            desk.say(screen, "How many fit in?")
            screen.wait_for("Seventeen.", timeout=60)
            log = _kept(folder, "Seventeen.")
            screen.type("/exit")  # it waits for its hooks, which may still be at work
            screen.wait_for("/exit")
            screen.press_until_end("Enter", 60)
        request = desk.server.turns[-1]
        assert "a pond for herons" in "\n".join(request.texts("user")), "the arguments are in the text of the skill"
        rows = desk.cortext("list", "--here", "--json", cwd=folder).json
        assert [(row["tool"], row["title"]) for row in rows] == [("copilot", "a pond for herons")]
        assert [text in log for text in ("A heron it is.", "How many fit in?", "Seventeen.")] == [True] * 3
        done = desk.cortext("uninstall", cwd=folder)
        assert done.code == 0, done.err
        kept = files_in(folder)
        assert {name: kept.get(name) for name in before} == before
        assert not [name for name in kept if name.startswith((".github/", ".claude/")) and name not in before]


def _kept(folder: Path, text: str) -> str:
    """Wait until the only conversation has this text; return its log."""

    def log() -> str:
        logs = (path.read_text("utf-8") for path in folder.glob("conversations/*/*/.session/messages.jsonl"))
        return next((log for log in logs if text in log), "")

    return wait_until(log, why=f"{text!r} is captured")
