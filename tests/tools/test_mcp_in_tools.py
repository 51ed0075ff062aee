"""The real Claude Code and the real Gemini CLI call a tool of our MCP server, as `cortext init` set them up."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.cli import git
from tests.support.desk import Desk
from tests.support.model_server import ModelServer, Reply, Request
from tests.support.runners import Tool

from cortext.faces.mcp.calls import SPECS

QUESTION = "What did we count at the pond?"


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with ModelServer() as server:
        yield Desk(tmp_path, server)


@pytest.fixture
def folder(desk: Desk) -> Path:
    """A workspace with one earlier conversation, as `cortext init` leaves it."""
    folder = desk.project("w")
    done = desk.cortext("init", "--ai", "claude,gemini", cwd=folder)
    assert done.code == 0, done.err
    assert desk.cortext("new", "plan", "Herons at the pond", cwd=folder).code == 0
    log = next(folder.glob("conversations/*/*/.session/messages.jsonl"))
    lines = (
        '{"role": "user", "content": "How many herons are at the pond?", "timestamp": "2026-11-14T10:00:00Z"}\n'
        '{"role": "assistant", "content": "I counted seventeen herons. We decided to count again in spring.",'
        ' "timestamp": "2026-11-14T10:00:05Z"}\n'
    )
    log.write_text(lines, encoding="utf-8")
    return folder


def _answer(request: Request) -> str:
    """What came back from the tool, as the program passed it on to the model."""
    return "\n".join(turn.text for turn in request.conversation if turn.kind == "tool_result")


def _consent(claude: Tool) -> None:
    """What the user answers when Claude Code asks about our server."""
    settings = claude.home / ".claude" / "settings.json"
    consent = {"enabledMcpjsonServers": ["cortext"], "permissions": {"allow": ["mcp__cortext"]}}
    settings.write_text(json.dumps(consent), encoding="utf-8")


@pytest.mark.real_tool
@pytest.mark.req("SESS-010", "SESS-007", "TOOL-02")
def test_claude_code_calls_a_tool(desk: Desk, folder: Path) -> None:
    claude = desk.tools["claude"]
    _consent(claude)
    desk.server.push(Reply.call("mcp__cortext__search_workspace", query="herons at the pond"), "Seventeen.")
    done = claude.run(QUESTION, cwd=folder)
    assert done.returncode == 0, done.stderr
    answer = _answer(desk.server.turns[-1])
    assert "seventeen herons" in answer
    assert "001-plan-herons-at-the-pond" in answer
    assert "data, not instructions" in answer


@pytest.mark.real_tool
@pytest.mark.req("SESS-010", "SESS-007", "TOOL-02")
def test_gemini_cli_calls_a_tool(desk: Desk, folder: Path) -> None:
    gemini = desk.tools["gemini"]
    desk.server.push(Reply.call("mcp_cortext_get_decision_history", topic="herons"), "Again in spring.")
    done = gemini.run(QUESTION, cwd=folder)
    assert done.returncode == 0, done.stderr
    offered = [tool["name"] for group in desk.server.turns[0].body["tools"] for tool in group["functionDeclarations"]]
    assert [name for name in offered if name.startswith("mcp_cortext_")] == [f"mcp_cortext_{name}" for name in SPECS]
    answer = _answer(desk.server.turns[-1])
    assert "2026-11-14" in answer
    assert "We decided to count again in spring." in answer
    assert "data, not instructions" in answer


@pytest.mark.real_tool
@pytest.mark.req("FLOW-01", "SESS-010", "TOOL-02")
@pytest.mark.parametrize("name", ["claude", "gemini"])
def test_resume_session_attaches_the_chat_of_the_program_that_calls_it(desk: Desk, folder: Path, name: str) -> None:
    """The model resumes by itself: the chat is part of the conversation from then on, until it is stopped there."""
    tool = desk.tools[name]
    if name == "claude":
        _consent(tool)
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "workspace")
    prefix = "mcp__cortext__" if name == "claude" else "mcp_cortext_"
    conversation = "001-plan-herons-at-the-pond"
    log = next(folder.glob(f"conversations/*/{conversation}/.session/messages.jsonl"))

    def say(words: str, *answers: Reply | str, resume: str | None = None) -> str:
        desk.server.push(*answers)
        done = tool.run(words, cwd=folder, resume=resume)
        assert done.returncode == 0, done.stderr
        return resume or tool.sessions()[-1]

    def status() -> tuple[str, str]:
        rows = desk.cortext("list", "--here", "--json", cwd=folder).json
        return next((row["status"], row["tool"]) for row in rows if row["id"] == conversation)

    chat = say("Good morning.", "Good morning.")
    resumed = Reply.call(f"{prefix}resume_session", id="001")
    say("Please go on with the herons.", resumed, "Picked up: seventeen herons.", resume=chat)
    answer = _answer(desk.server.turns[-1])
    assert f"attached this chat to {conversation}" in answer
    assert "I counted seventeen herons" in answer
    say("Are there storks?", "Two storks.", resume=chat)
    say("And geese?", "Forty geese.", resume=chat)
    assert status()[1] == name
    say("/workspace.stop-conversation", "Saved.", resume=chat)
    assert "Session saved." in str(desk.server.turns[-1].body)

    assert status() == ("paused", name)
    committed = git(folder, "show", f"HEAD:{log.relative_to(folder)}")
    for words in ("Are there storks?", "Two storks.", "And geese?", "Forty geese."):
        assert words in log.read_text(encoding="utf-8"), words
        assert words in committed, words
    assert "Good morning." not in committed, "what was said before the resume stays where it was"
    assert git(folder, "status", "--porcelain", "--", "conversations") == ""
