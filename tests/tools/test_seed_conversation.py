"""The example conversation of the seed documents, word for word: listed, resumed in Claude Code and stopped."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.cli import SCRIPTS, git
from tests.support.desk import Desk
from tests.support.model_server import ModelServer, Request
from tests.support.screen import Screen

SESSION = """\
{
  "version": "1.0",
  "conversation_id": "001-brainstorm-api-design",
  "conversation_type": "brainstorm",
  "status": "active",
  "created_at": "2025-11-22T10:30:00Z",
  "last_active": "2025-11-22T11:45:00Z",
  "message_count": 24,
  "agent_config": {
    "command": "/workspace.brainstorm",
    "system_prompt_hash": "sha256:abc123...",
    "model": "claude-sonnet-4-5-20250929",
    "tools": ["mcp__cortext__search_workspace", "mcp__cortext__get_context"]
  },
  "context_summary": "Discussing REST vs GraphQL for internal APIs, leaning toward REST for simplicity"
}
"""
MESSAGES = """\
{"role": "user", "content": "Let's brainstorm API design", "timestamp": "2025-11-22T10:30:00Z"}
{"role": "assistant", "content": "Great! What's the core problem...", "timestamp": "2025-11-22T10:30:15Z"}
"""
SUMMARY = "Discussing REST vs GraphQL for internal APIs, leaning toward REST for simplicity"
NAME = "001-brainstorm-api-design"


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    with ModelServer() as server:
        yield Desk(tmp_path, server, names=["claude"])


@pytest.fixture
def folder(desk: Desk) -> Path:
    """Return a workspace that has the conversation as the documents show it, and nothing else."""
    folder = desk.project("w")
    assert desk.cortext("init", "--ai", "claude", cwd=folder).code == 0
    place = folder / "conversations" / "2025-11-22" / NAME
    (place / ".session").mkdir(parents=True)
    (place / "brainstorm.md").write_text("# API Design Discussion\n", encoding="utf-8")
    (place / ".session" / "session.json").write_text(SESSION, encoding="utf-8")
    (place / ".session" / "messages.jsonl").write_text(MESSAGES, encoding="utf-8")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "workspace")
    settings = desk.home / ".claude" / "settings.json"
    settings.parent.mkdir(exist_ok=True)
    settings.write_text('{"disabledMcpjsonServers": ["cortext"]}', encoding="utf-8")  # else it asks about the server
    return folder


ENTRY = rf"""
1\. \[brainstorm\] API Design Discussion
   Last active: (\d+ \w+ ago|yesterday) \| Status: paused( \| here)?
   Summary: {re.escape(SUMMARY)}
"""
LIST = rf"""Here are your resumable conversations:
{ENTRY}
Which conversation would you like to continue\? \(number or search\)"""


def _sent_with_enter(desk: Desk, screen: Screen, words: str) -> Request:
    """Press Enter until the model gets these words: the first one may only take the command that is offered."""
    for _ in range(20):
        screen.press("Enter")
        try:
            return desk.server.wait_for(lambda turn: words in str(turn.body), 3)
        except TimeoutError:
            continue
    raise AssertionError(screen.text())


def _texts(request: Request) -> str:
    return "\n".join(part.text for part in request.conversation if part.kind == "text")


@pytest.mark.real_tool
@pytest.mark.req("SESS-002a", "SESS-003a", "SESS-003b", "SESS-003d", "SELF-02")
def test_the_example_is_listed_resumed_and_stopped_as_the_documents_show_it(desk: Desk, folder: Path) -> None:
    # The list, from the shell and in the tool.
    for words, entries in ((["resume"], ENTRY), (["resume", "--in-tool"], LIST)):
        listed = desk.cortext(*words, cwd=folder)
        assert re.search(entries, listed.out), listed

    # The resume: the command, the turns, the block.
    desk.server.push(*["I see we were discussing REST vs GraphQL. Where would you like to pick up?"] * 3)
    command = [str(SCRIPTS / "cortext"), "resume", "1", "--ai", "claude"]
    with Screen(desk.home.parent, command, desk.env, folder, "150x70") as screen:
        resumed = desk.server.wait_for(lambda turn: "[RESUMED CONVERSATION]" in str(turn.body), 170)
        screen.wait_for("Where would you like to pick up?")
        sent = _texts(resumed)
        prompt = (folder / ".workspace" / "commands" / "brainstorm.md").read_text(encoding="utf-8")
        first = next(line for line in prompt.splitlines() if line.startswith("## "))
        block = sent[sent.index("[RESUMED CONVERSATION]") : sent.index("[END RESUMED CONTEXT]")]
        lines = [re.sub("(?<=^Last active: ).*", "…", line) for line in block.splitlines()]
        assert lines[:10] == [
            "[RESUMED CONVERSATION]",
            "You are continuing a previous conversation.",
            "",
            "Conversation: brainstorm / API Design Discussion",
            "Last active: …",
            "Messages: 2 exchanges",
            f"Summary: {SUMMARY}",
            "",
            "Previous context is loaded. The user expects you to continue where you left off.",
            "Review the conversation history and pick up naturally.",
        ]
        assert first in str(resumed.body).replace("\\n", "\n"), "the text of the command"
        said = [sent.index("Let's brainstorm API design"), sent.index("Great! What's the core problem...")]
        assert said == sorted(said)

        # The stop: nothing was said since, so the summary is that of the documents.
        desk.server.drop_replies()
        desk.server.push(*["It is saved."] * 3)
        screen.type("/workspace.stop-conversation")
        stopped = _sent_with_enter(desk, screen, "has been paused.")
        screen.wait_for("It is saved.")
    given = str(stopped.body).replace("\\n", "\n")
    confirmation = [
        "Session saved.",
        'Conversation "API Design Discussion" has been paused.',
        "You can continue later with /workspace.resume",
        f"Summary: {SUMMARY}",
    ]
    found = [given.replace('\\"', '"').rindex(line) for line in confirmation]
    assert found == sorted(found)

    # What the documents' session.json says is still there.
    path = next(folder.glob(f"conversations/2025-11-22/{NAME}/.session/session.json"))
    before, after = json.loads(SESSION), json.loads(path.read_text(encoding="utf-8"))
    assert after["status"] == "paused" and after["title"] == "API Design Discussion"
    for name in ("version", "conversation_id", "conversation_type", "created_at", "context_summary"):
        assert after[name] == before[name], name
    assert after["agent_config"]["command"] == before["agent_config"]["command"]
    assert set(before["agent_config"]["tools"]) <= set(after["agent_config"]["tools"])
    log = path.with_name("messages.jsonl").read_text(encoding="utf-8")
    talk = [(line["role"], line["content"]) for line in map(json.loads, log.splitlines()) if not line.get("aside")]
    assert talk[:2] == [(line["role"], line["content"]) for line in map(json.loads, MESSAGES.splitlines())]
    assert not any("/workspace.stop-conversation" in text or "RESUMED" in text for _, text in talk)


@pytest.mark.real_tool
@pytest.mark.req("SESS-003d")
def test_the_receipt_says_that_the_example_was_held_with_another_prompt(desk: Desk, folder: Path) -> None:
    dry = desk.cortext("resume", "1", "--ai", "claude", "--dry-run", cwd=folder)
    assert "carried    2 of 2 messages, 0 tool calls" in dry.out
    assert "the text of /workspace.brainstorm has changed; the current one is used" in dry.out
    assert "MCP server" not in dry.out, "the server whose tools it lists is set up"
