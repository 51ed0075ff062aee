"""After a compaction the model gets back what the summary dropped: by the request that the real program sends."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.cli import git
from tests.support.desk import Desk
from tests.support.model_server import ModelServer, Reply, ToolCall
from tests.support.runners import OpenCode
from tests.support.runners.base import write_json
from tests.support.screen import Screen
from tests.support.waiting import wait_until
from tests.tools.test_resume_flows import compact_opencode

ASKED = "Add a retry to the heron client. Always use tabs in this project."


@pytest.fixture
def name() -> str:
    return "claude"


@pytest.fixture
def desk(tmp_path: Path, name: str) -> Iterator[Desk]:
    with ModelServer() as server:
        yield Desk(tmp_path, server, [name])


@pytest.fixture
def workspace(desk: Desk, name: str) -> Path:
    folder = desk.project("w")
    assert desk.cortext("init", "--ai", name, cwd=folder).code == 0
    if name == "opencode":
        OpenCode.settle(folder / ".opencode")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "workspace")
    return folder


def _compacted(desk: Desk, folder: Path) -> str:
    """Hold a conversation in which a file is written and a command fails, and have it compacted; return its id."""
    claude = desk.tools["claude"]
    path = str(folder / "heron_client.py")
    desk.server.push(
        Reply(tool_calls=(ToolCall("Write", {"file_path": path, "content": "def fetch_heron():\n\treturn 1\n"}),)),
        Reply(tool_calls=(ToolCall("Bash", {"command": "cat missing.txt", "description": "look"}),)),
        "The client retries now.",
    )
    assert claude.run(ASKED, cwd=folder).returncode == 0
    key = claude.sessions()[-1]
    desk.server.push("<summary>Birds were talked about.</summary>")
    assert claude.run("/compact", cwd=folder, resume=key).returncode == 0
    return key


def _received(desk: Desk, folder: Path, key: str, prompt: str) -> str:
    """Send a prompt; return the text that the model received."""
    desk.server.push("Fine.")
    (tool,) = desk.tools.values()
    assert tool.run(prompt, cwd=folder, resume=key).returncode == 0
    return "\n".join(turn.text for turn in desk.server.turns[-1].conversation if turn.kind == "text")


@pytest.mark.real_tool
@pytest.mark.req("TOOL-11")
def test_after_a_compaction_the_model_gets_back_what_the_summary_dropped(desk: Desk, workspace: Path) -> None:
    key = _compacted(desk, workspace)

    received = _received(desk, workspace, key, "Go on.")

    assert "Birds were talked about" in received
    assert received.count(f"The user asked last: {ASKED}") == 1
    assert "the last `cat missing.txt` exit 1" in received
    assert f"{workspace}/heron_client.py (created): fetch_heron" in received
    again = _received(desk, workspace, key, "And now?")
    assert again.count("The user asked last:") == 1, "it stays where it was, and comes only once"


@pytest.mark.real_tool
@pytest.mark.req("TOOL-11")
def test_with_the_setting_at_zero_the_model_gets_only_the_summary(desk: Desk, workspace: Path) -> None:
    desk.tools["claude"].env["CORTEXT_RESUME_COMPACTION_TOKENS"] = "0"
    key = _compacted(desk, workspace)

    received = _received(desk, workspace, key, "Go on.")

    assert "Birds were talked about" in received
    assert "The user asked last:" not in received


@pytest.mark.real_tool
@pytest.mark.req("TOOL-11")
@pytest.mark.parametrize("name", ["opencode"])
def test_in_opencode_the_next_prompt_gives_back_what_the_summary_dropped(desk: Desk, workspace: Path) -> None:
    tool = desk.tools["opencode"]
    desk.server.push(tool.shell("cat missing.txt"), "The client calls fetch_heron and count_storks now.")
    assert tool.run(ASKED, cwd=workspace).returncode == 0
    key = tool.sessions()[-1]
    desk.server.push("A summary: count_storks.")
    compact_opencode(tool, workspace, key)
    _wait_for_compaction(desk)

    received = _received(desk, workspace, key, "Go on.")

    assert "A summary: count_storks." in received
    given = received.partition("cortext has kept every message of this conversation.")[2]
    assert f"The user asked last: {ASKED}" in given and "fetch_heron" in given and "`cat missing.txt`" in given
    assert received.count("The user asked last:") == 1


# Gemini CLI and Qwen Code keep a conversation that a summary would not make shorter, and want the summary in this form.
# The lines differ, because Gemini CLI stops a model that repeats itself.
CALM = [f"Bird {n} is calm." for n in range(400)]
ANSWER = Reply(text="\n".join(["The client calls fetch_heron and count_storks now.", *CALM]), prompt_tokens=20_000)
SUMMARY = "<state_snapshot>A summary: count_storks.</state_snapshot>"
# What to type, what each program's screen shows when it may be typed into, and when it has compacted.
COMPACTING = {
    "copilot": ("/compact", "/ commands", "Compaction completed"),
    "kimi": ("/compact", CALM[-1], "Compaction complete"),
    "pi": ("/compact", CALM[-1], "Compacted from"),
    "qwen": ("/compress", "Type your message", "compressed from"),
}


@pytest.mark.real_tool
@pytest.mark.req("TOOL-11")
@pytest.mark.parametrize(
    "name", ["copilot", "qwen", *(pytest.param(name, marks=pytest.mark.repeats) for name in ("kimi", "pi"))]
)
def test_the_next_prompt_gives_back_what_the_summary_dropped(desk: Desk, workspace: Path, name: str) -> None:
    tool = desk.tools[name]
    if name == "kimi":  # its hooks are in the user's config
        assert desk.cortext("init", "--ai", "kimi", "--user-hooks", cwd=workspace).code == 0
    if name == "pi":  # it keeps the last 20,000 tokens
        path = desk.home / ".pi/agent/settings.json"
        write_json(path, json.loads(path.read_text("utf-8")) | {"compaction": {"keepRecentTokens": 500}})
    desk.server.push(tool.shell("cat missing.txt"), ANSWER)
    assert tool.run(ASKED, cwd=workspace).returncode == 0
    key = tool.sessions()[-1]
    command, ready, done = COMPACTING[name]
    desk.server.push(SUMMARY)
    with Screen(desk.home.parent, tool.interactive(resume=key), desk.env, workspace, "150x60") as screen:
        if name == "qwen":
            screen.wait_for("Approve this server", timeout=120)
            screen.press("Enter")
        screen.wait_for(ready, timeout=120)
        _type_command(screen, command, done)
        _wait_for_compaction(desk)

    received = _received(desk, workspace, key, "Go on.")

    _check_given_back(received)


@pytest.mark.real_tool
@pytest.mark.req("TOOL-11")
@pytest.mark.parametrize("name", ["gemini"])
def test_in_gemini_cli_the_next_prompt_gives_back_what_the_summary_dropped(desk: Desk, workspace: Path) -> None:
    tool = desk.tools["gemini"]
    desk.server.push(tool.shell("cat missing.txt"), ANSWER)
    # A new session: the screen of a resumed one loses what is typed while it loads its history.
    started = [*tool.interactive(ASKED), "--approval-mode", "yolo"]
    with Screen(desk.home.parent, started, desk.env, workspace, "150x60") as screen:
        screen.wait_for(CALM[-1], timeout=120)
        assert not _compaction_is_reported(desk), "it asks before every turn whether to compress"
        desk.server.push(SUMMARY, SUMMARY)  # it has the first one verified
        _type_command(screen, "/compress", "compressed from")
        _wait_for_compaction(desk)

    received = _received(desk, workspace, tool.sessions()[-1], "Go on.")

    _check_given_back(received)
    assert CALM[-1] not in received
    planned = desk.cortext("resume", "1", "--dry-run", "--json", cwd=workspace).json
    assert (planned["how"], planned["receipt"]["messages"]) == ("a new native session", 6)


def _check_given_back(received: str) -> None:
    """Check that the model received the summary, and once what it dropped."""
    assert "A summary: count_storks." in received
    given = received.partition("cortext has kept every message of this conversation.")[2]
    assert f"The user asked last: {ASKED}" in given and "fetch_heron" in given
    assert "`cat missing.txt` exit 1" in given or "`cat missing.txt` failed" in given
    assert received.count("The user asked last:") == 1


def _type_command(screen: Screen, command: str, done: str) -> None:
    """Type a command, and press Enter until it is done: a program may take the first one for a part of the command."""
    screen.type(command)
    screen.wait_for(command)
    for _ in range(40):
        screen.press("Enter")
        try:
            screen.wait_for(done, timeout=3)
            return
        except AssertionError:
            continue
    raise AssertionError(f"{done!r} is not on the screen:\n{screen.text()}")


def _wait_for_compaction(desk: Desk) -> None:
    """Wait until the report of the compaction, which not every program waits for, has been handled."""
    wait_until(lambda: _compaction_is_reported(desk), why="a compaction is reported")


def _compaction_is_reported(desk: Desk) -> bool:
    return any('"compacted":true' in path.read_text("utf-8") for path in desk.home.rglob("cortext/chats/*.json"))
