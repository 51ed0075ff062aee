"""The real Claude Code and Gemini CLI call our MCP server, as `cortext init` configured them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
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
    """Create a workspace with `cortext init`, and one earlier conversation in it."""
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


def _tool_results(request: Request) -> str:
    """Return the results of tool calls that the program sent to the model."""
    return "\n".join(turn.text for turn in request.conversation if turn.kind == "tool_result")


def _consent(claude: Tool) -> None:
    """Approve our server, as the user would when Claude Code asks."""
    settings = claude.home / ".claude" / "settings.json"
    consent = {"enabledMcpjsonServers": ["cortext"], "permissions": {"allow": ["mcp__cortext"]}}
    settings.write_text(json.dumps(consent), encoding="utf-8")


@pytest.mark.real_tool
@pytest.mark.req("SESS-010", "SESS-007", "TOOL-02")
def test_claude_code_calls_our_mcp_server(desk: Desk, folder: Path) -> None:
    claude = desk.tools["claude"]
    _consent(claude)
    desk.server.push(Reply.call("mcp__cortext__search_workspace", query="herons at the pond"), "Seventeen.")
    done = claude.run(QUESTION, cwd=folder)
    assert done.returncode == 0, done.stderr
    answer = _tool_results(desk.server.turns[-1])
    assert "seventeen herons" in answer
    assert "001-plan-herons-at-the-pond" in answer
    assert "data, not instructions" in answer


@pytest.mark.real_tool
@pytest.mark.req("SESS-010", "SESS-007", "TOOL-02")
def test_gemini_cli_calls_our_mcp_server(desk: Desk, folder: Path) -> None:
    gemini = desk.tools["gemini"]
    desk.server.push(Reply.call("mcp_cortext_get_decision_history", topic="herons"), "Again in spring.")
    done = gemini.run(QUESTION, cwd=folder)
    assert done.returncode == 0, done.stderr
    offered = [tool["name"] for group in desk.server.turns[0].body["tools"] for tool in group["functionDeclarations"]]
    assert [name for name in offered if name.startswith("mcp_cortext_")] == [f"mcp_cortext_{name}" for name in SPECS]
    answer = _tool_results(desk.server.turns[-1])
    assert "2026-11-14" in answer
    assert "We decided to count again in spring." in answer
    assert "data, not instructions" in answer


@pytest.mark.real_tool
@pytest.mark.req("FLOW-01", "SESS-010", "TOOL-02")
@pytest.mark.parametrize("name", ["claude", pytest.param("gemini", marks=pytest.mark.repeats)])
def test_resume_session_attaches_the_chat_of_the_calling_program(desk: Desk, folder: Path, name: str) -> None:
    """The model resumes by itself; from then on the chat belongs to the conversation, until that is stopped."""
    tool = desk.tools[name]
    if name == "claude":
        _consent(tool)
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "workspace")
    prefix = "mcp__cortext__" if name == "claude" else "mcp_cortext_"
    conversation = "001-plan-herons-at-the-pond"
    log = next(folder.glob(f"conversations/*/{conversation}/.session/messages.jsonl"))

    def say(prompt: str, *answers: Reply | str, resume: str | None = None) -> str:
        desk.server.push(*answers)
        done = tool.run(prompt, cwd=folder, resume=resume)
        assert done.returncode == 0, done.stderr
        return resume or tool.sessions()[-1]

    def status() -> tuple[str, str]:
        rows = desk.cortext("list", "--here", "--json", cwd=folder).json
        return next((row["status"], row["tool"]) for row in rows if row["id"] == conversation)

    chat = say("Good morning.", "Good morning.")
    resumed = Reply.call(f"{prefix}resume_session", id="001")
    say("Please go on with the herons.", resumed, "Picked up: seventeen herons.", resume=chat)
    answer = _tool_results(desk.server.turns[-1])
    assert f"attached this chat to {conversation}" in answer
    assert "I counted seventeen herons" in answer
    say("Are there storks?", "Two storks.", resume=chat)
    say("And geese?", "Forty geese.", resume=chat)
    assert status()[1] == name
    say("/workspace.stop-conversation", "Saved.", resume=chat)
    assert "Session saved." in str(desk.server.turns[-1].body)

    assert status() == ("paused", name)
    committed = git(folder, "show", f"HEAD:{log.relative_to(folder)}")
    for text in ("Are there storks?", "Two storks.", "And geese?", "Forty geese."):
        assert text in log.read_text(encoding="utf-8"), text
        assert text in committed, text
    assert "Good morning." not in committed, "messages before the resume stay in the earlier session"
    assert git(folder, "status", "--porcelain", "--", "conversations") == ""


@pytest.mark.real_tool
@pytest.mark.req("SELF-03")
def test_only_the_tools_that_claude_code_had_are_listed(desk: Desk, folder: Path) -> None:
    """One server is allowed, one cannot start; in a second talk the user refuses both: that answer is preselected."""
    claude = desk.tools["claude"]
    servers = json.loads((folder / ".mcp.json").read_text(encoding="utf-8"))
    servers["mcpServers"]["broken"] = {"command": str(folder / "nothing-here")}
    (folder / ".mcp.json").write_text(json.dumps(servers), encoding="utf-8")

    def talk(topic: str, settings: Mapping[str, object], *answers: Reply | str) -> tuple[list[str], list[str]]:
        (claude.home / ".claude" / "settings.json").write_text(json.dumps(settings), encoding="utf-8")
        desk.server.push(*answers)
        done = claude.run(f"/workspace.plan {topic}", cwd=folder)
        assert done.returncode == 0, done.stderr
        [path] = folder.glob(f"conversations/*/*{topic.lower()}/.session/session.json")
        config = json.loads(path.read_text(encoding="utf-8"))["agent_config"]
        return config["tools"], config.get("tools_configured", [])

    own = {f"mcp__cortext__{name}" for name in SPECS}
    call = Reply.call("mcp__cortext__search_workspace", query="herons at the pond")
    allowed = {"enabledMcpjsonServers": ["cortext", "broken"], "permissions": {"allow": ["mcp__cortext"]}}
    tools, configured = talk("Storks", allowed, call, "Seventeen.")
    assert "mcp__cortext__search_workspace" in tools and set(tools) <= own
    assert {*configured} == {*own.difference(tools), "mcp__broken__*"}

    tools, configured = talk("Geese", {"disabledMcpjsonServers": ["cortext", "broken"]}, "Forty.")
    assert (tools, {*configured}) == ([], {*own, "mcp__broken__*"})
