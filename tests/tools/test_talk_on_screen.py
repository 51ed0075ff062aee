"""A whole conversation typed on the screen of a program: what is kept of it, and what it says of itself."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from tests.support.desk import Desk
from tests.support.model_server import ModelServer, Reply
from tests.support.screen import Screen
from tests.support.waiting import wait_until
from tests.tools.test_resume_inside import NAME, Chats

ASK, ANSWER = "REST or GraphQL for internal APIs?", "We go with REST because it is simple to operate."
SUMMARY = f"Last ask: {ASK} Answer: {ANSWER}"
GOODBYE, PARTING = "Thanks, that's enough.", "It is saved. See you."


@pytest.mark.real_tool
@pytest.mark.req("SELF-01", "SELF-02", "SELF-03", "SELF-05", "SESS-005d", "SESS-001d")
@pytest.mark.parametrize("name", ["claude"])
def test_a_talk_on_the_screen_pauses_at_a_goodbye_and_says_what_it_was(tmp_path: Path, name: str) -> None:
    with ModelServer() as server:
        chats = Chats(Desk(tmp_path, server, names=[name]), name)
        _refuse_our_server(chats)
        with _begun(chats) as screen:
            for words, answer in ((ASK, ANSWER), (GOODBYE, PARTING)):
                server.push(answer)
                chats.desk.say(screen, words)
                screen.wait_for(answer)
            fields = wait_until(lambda: _paused(chats), why="the goodbye pauses it")

    assert fields["title"] == "API design"
    assert fields["context_summary"].endswith(SUMMARY)
    assert fields["agent_config"]["tools"] == [], "no server was used"
    talk = [(line["role"], line["content"]) for line in _log(chats) if not line.get("aside") and line["content"]]
    assert (("user", ASK), ("assistant", ANSWER)) in pairwise(talk), talk
    assert sum(text == ASK for _, text in talk) == 1, "nothing is stored twice"
    assert not any("[RESUMED CONVERSATION]" in text or "# Brainstorm" in text for _, text in talk)
    listed = chats.desk.cortext("resume", cwd=chats.folder).out
    assert "1. [brainstorm] API design\n" in listed and "| Status: paused" in listed
    assert SUMMARY in " ".join(listed.split())


def _refuse_our_server(chats: Chats) -> None:
    """Answer the question of Claude Code about the server of a project, with its preselected no."""
    if chats.name == "claude":
        settings = chats.tool.home / ".claude" / "settings.json"
        settings.parent.mkdir(exist_ok=True)
        settings.write_text('{"disabledMcpjsonServers": ["cortext"]}', encoding="utf-8")


def _begun(chats: Chats) -> Screen:
    """Return the screen of the program after `/workspace.brainstorm API design` was answered."""
    name, server = chats.name, chats.desk.server
    if name == "codex":
        read = chats.tool.shell("cat .workspace/commands/brainstorm.md")
        server.push(Reply(text="I read it.", tool_calls=read.tool_calls))
    server.push("What is the core problem?")
    call = "$workspace-" if name == "codex" else "/workspace."
    command = chats.tool.interactive(None if name == "opencode" else f"{call}brainstorm API design")
    screen = Screen(chats.folder.parent, command, chats.desk.env, chats.folder, "150x70")
    try:
        if name == "opencode":
            screen.wait_for("Ask anything")
            screen.type(f"{call}brain")
            screen.wait_for("think widely about an open question")
            screen.press("Enter")  # takes the command that is offered
            screen.type("API design")
            screen.wait_for("brainstorm API design")
            screen.press("Enter")
        screen.wait_for("What is the core problem?", timeout=120)
    except BaseException:
        screen.close()
        raise
    return screen


def _folder(chats: Chats) -> Path:
    return next(chats.folder.glob(f"conversations/*/{NAME}/.session"))


def _paused(chats: Chats) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads((_folder(chats) / "session.json").read_text(encoding="utf-8"))
    return fields if fields["status"] == "paused" and fields.get("context_summary") else {}


def _log(chats: Chats) -> list[dict[str, Any]]:
    text = (_folder(chats) / "messages.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]
