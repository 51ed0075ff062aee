"""`/workspace.resume` inside a tool, through its hooks and command: attaching, lists, waking and branches."""

from __future__ import annotations

import os
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from cortext.model.message import Message
from cortext.model.threads import branches, thread
from cortext.wiring.stores import Stores
from tests.faces.pond import Pond, served
from tests.support.claude_talk import ClaudeTalk
from tests.support.cli import committed_workspace, cortext, git

FIRST = "001-brainstorm-api-design"
SECOND = "002-plan-a-pond"


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create a workspace with two conversations whose chats have ended."""
    folder = committed_workspace(tmp_path / "w", monkeypatch)
    for command, question, answer in (
        ("/workspace.brainstorm API design", "REST or GraphQL?", "REST, because it is simple."),
        ("/workspace.plan A pond", "How deep?", "One metre, for the herons."),
    ):
        talk = _chat(folder)
        talk.say(command, "Go on.", question, answer)
        talk.end()
    return folder


def _chat(workspace: Path) -> ClaudeTalk:
    return ClaudeTalk(workspace, real_time=True)


def _row(workspace: Path, name: str) -> dict[str, Any]:
    rows = cortext("list", "--json", cwd=workspace).json
    return next(row for row in rows if row["id"] == name)


def _log(workspace: Path, name: str) -> list[Message]:
    world = Stores(str(workspace))
    return list(world.workspace_store().store.read(name))


def _words(workspace: Path, name: str) -> list[str]:
    return [message.content for message in _log(workspace, name)]


def _numbered(text: str) -> list[str]:
    return re.findall(r"^\d+\. \[\w+\] (.*)$", text, re.MULTILINE)


@pytest.mark.req("FLOW-01")
def test_numbers_stay_valid_and_a_second_resume_switches(workspace: Path) -> None:
    chat = _chat(workspace)
    assert _numbered(chat.resume()) == ["A pond", "API design"]
    # The order of the list changes meanwhile, but number 2 is still the one shown as 2.
    other = _chat(workspace)
    other.resume(FIRST)
    other.say("Said in the other chat", "Yes.")
    other.end()
    answer = chat.resume("2")
    assert f"attached this chat to {FIRST}" in answer
    assert "REST, because it is simple." in answer
    assert _row(workspace, FIRST)["status"] == "active"
    chat.say("What about pagination?", "Cursors.")

    answer = chat.resume("1")
    assert f"attached this chat to {SECOND}" in answer
    assert f"{FIRST}, which was held here until now, is saved and paused." in answer
    chat.say("And how wide?", "Three metres.")
    assert (_row(workspace, FIRST)["status"], _row(workspace, SECOND)["status"]) == ("paused", "active")
    said = chat.prompt("/workspace.stop-conversation")
    assert "Session saved." in said.out
    assert _row(workspace, SECOND)["status"] == "paused"

    first, second = _words(workspace, FIRST), _words(workspace, SECOND)
    assert "What about pagination?" in first and "What about pagination?" not in second
    assert "And how wide?" in second and "And how wide?" not in first
    assert "And how wide?" in git(workspace, "show", "HEAD")
    assert not any("RESUMED CONVERSATION" in text for text in first + second)
    # A chat that only asked is never listed.
    third = _chat(workspace)
    assert sorted(_numbered(third.resume())) == ["A pond", "API design"]
    assert "no conversation matches '3'" in third.resume("3")


@pytest.mark.req("FLOW-01")
def test_a_chat_outside_a_conversation_can_be_resumed_and_stopped(workspace: Path) -> None:
    plain = _chat(workspace)
    plain.say("Where do herons sleep?", "In trees.")
    plain.end()
    name = f"claude-{plain.key}"
    assert _row(workspace, name)["status"] == "paused", "a chat that was not resumed does not become active"
    chat = _chat(workspace)
    assert _numbered(chat.resume())[0] == "Where do herons sleep?"
    assert "In trees." in chat.resume("1")
    chat.say("And when it rains?", "In trees, wet.")
    assert _row(workspace, name)["status"] == "active"
    assert "In trees, wet." in cortext("show", name, cwd=workspace).out
    assert "Session saved." in chat.prompt("/workspace.stop-conversation").out
    assert _row(workspace, name)["status"] == "paused"


@pytest.mark.req("FLOW-01", "FLOW-07")
def test_chats_that_only_ran_our_commands_are_not_listed(workspace: Path) -> None:
    asking = _chat(workspace)
    asking.resume()
    asking.end()
    lost = _chat(workspace)
    lost.say("/workspace.stop-conversation", "Nothing is held here.")
    lost.end()
    talk = _chat(workspace)
    talk.resume()
    talk.say("Never mind. What is a heron?", "A bird.")
    talk.end()
    talked = f"claude-{talk.key}"
    hidden = {f"claude-{asking.key}", f"claude-{lost.key}"}

    def listed(*words: str) -> set[str]:
        return {row["id"] for row in cortext(*words, "--json", cwd=workspace).json}

    assert listed("list") == listed("resume", "--list") == {FIRST, SECOND, talked}
    assert listed("list", "--all") == {FIRST, SECOND, talked} | hidden
    assert listed("list", "--limit", "1") == {talked}
    shown = cortext("list", cwd=workspace).out
    assert "heron" in cortext("show", talked, cwd=workspace).out
    assert talked in shown and not any(name in shown for name in hidden)
    # It can still be named; and with a message in it, it is a chat like any other.
    assert "/workspace.stop-conversation" in cortext("show", f"claude-{lost.key}", cwd=workspace).out
    lost.say("By the way: how deep is the pond?", "One metre.")
    assert f"claude-{lost.key}" in listed("list")


@pytest.mark.req("FLOW-08")
@pytest.mark.parametrize(
    ("version", "added"),
    [
        (8, ("asked", "project", "repository", "tags", "starred", "archived", "parent")),
        (9, ("project", "repository", "tags", "starred", "archived", "parent")),
        (10, ("tags", "starred", "archived", "parent")),
        (12, ("parent",)),
        (13, ()),
    ],
)
def test_the_state_of_an_earlier_version_is_migrated(workspace: Path, version: int, added: tuple[str, ...]) -> None:
    chat = _chat(workspace)
    chat.resume(FIRST)
    cortext("list", cwd=workspace)
    path = Path(os.environ["HOME"]) / ".cache" / "cortext" / "catalogue.db"
    if not path.exists():
        path = Path(os.environ["XDG_CACHE_HOME"]) / "cortext" / "catalogue.db"
    with closing(sqlite3.connect(path)) as database:
        database.execute("DROP INDEX session_damaged")
        if "parent" in added:
            database.execute("DROP INDEX session_by_parent")
        for column in added:
            database.execute(f"ALTER TABLE session DROP COLUMN {column}")
        for table in ("call", "called", "call_name") if version < 12 else ():
            database.execute(f"DROP TABLE {table}")
        database.execute(f"PRAGMA user_version = {version}")
    assert f"claude-{chat.key}" not in cortext("list", cwd=workspace).out
    assert all(row["project"] for row in cortext("list", "--here", "--json", cwd=workspace).json)
    chat.say("And versioning?", "In the path.")  # the chat is still attached to the conversation
    assert "In the path." in _words(workspace, FIRST)


@pytest.mark.req("FLOW-01")
def test_a_completed_status_and_a_changed_command_are_reported_first(workspace: Path) -> None:
    assert cortext("complete", FIRST, cwd=workspace).code == 0
    command = workspace / ".workspace" / "commands" / "brainstorm.md"
    command.write_text("# Another text\n\nTopic: {arguments}\n", encoding="utf-8")
    chat = _chat(workspace)
    answer = chat.resume(FIRST)
    assert "was marked as completed, so it was not resumed" in answer
    assert "REST, because it is simple." not in answer
    assert _row(workspace, FIRST)["status"] == "completed"
    answer = chat.resume(f"{FIRST} --force")
    assert "the text of /workspace.brainstorm has changed; the current one is used" in answer
    assert _row(workspace, FIRST)["status"] == "active"


@pytest.mark.req("FLOW-01", "FLOW-03")
def test_the_shell_says_that_a_conversation_is_active_in_a_tool(
    workspace: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    dry = ("resume", FIRST, "--ai", "codex", "--dry-run")
    assert "it is active" not in cortext(*dry, cwd=workspace).out

    _chat(workspace).resume(FIRST)
    expected = "it is active in Claude Code, last active just now; if it continues there as well, both are kept as"
    assert f"note       {expected}" in cortext(*dry, cwd=workspace).out
    assert any(note.startswith(expected) for note in cortext(*dry, "--json", cwd=workspace).json["warnings"])
    program = tmp_path / "bin" / "claude"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 2.1.0\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    started = cortext("resume", FIRST, "--ai", "claude", cwd=workspace)
    assert started.code == 0
    assert f"note       {expected}" in started.err


@pytest.mark.req("FLOW-01", "FLOW-03", "SELF-04")
def test_two_tools_at_once_are_two_branches(workspace: Path) -> None:
    one, two = _chat(workspace), _chat(workspace)
    one.resume(FIRST)
    one.say("One asks", "One is answered")
    answer = two.resume(FIRST)
    assert "it is active in Claude Code, last active just now" in answer
    two.say("Two asks", "Two is answered")
    told = one.prompt("One asks again").out
    assert "2 messages were added to this conversation" in told and "- user: Two asks" in told
    one.answer("One is answered again")
    told = two.prompt("Two asks again").out
    assert "One asks again" in told and "Two asks" not in told
    two.answer("Two is answered again")
    assert "added to this conversation" not in two.prompt("And again").out, "what was told is not repeated"
    two.answer("Again")

    messages = _log(workspace, FIRST)
    assert {text for text in _words(workspace, FIRST) if " asks" in text} == {
        "One asks", "One asks again", "Two asks", "Two asks again",
    }  # fmt: skip
    first, second = branches(messages)
    way = [message.content for message in thread(messages, first.head)]
    assert way[-6:] == ["Two asks", "Two is answered", "Two asks again", "Two is answered again", "And again", "Again"]
    assert "One is answered" in way and "One asks again" not in way
    other = [message.content for message in thread(messages, second.head)]
    assert "One asks again" in other and "Two asks" not in other
    assert (first.tool, second.tool) == ("Claude Code", "Claude Code")
    together = [message.content for message in thread(messages)]
    assert "One asks again" in together and "Two asks again" in together
    assert "2 branches" in cortext("list", cwd=workspace).out
    shown = cortext("show", FIRST, "--no-pager", cwd=workspace).out
    assert shown.count("── A branch:") == 2 and "in Claude Code, after message" in shown
    # The end of one chat does not pause the other.
    one.end()
    assert _row(workspace, FIRST)["status"] == "active"
    two.end()
    assert _row(workspace, FIRST)["status"] == "paused"


@pytest.mark.req("FLOW-01", "FLOW-03")
def test_the_start_of_the_tool_makes_a_conversation_active(workspace: Path) -> None:
    """`cortext resume` only records the session; the hook of the tool that really starts sets the status."""
    world = Stores(str(workspace))
    named_store = world.workspace_store()
    for event, said in (("SessionStart", ""), ("Stop", "Said without any other hook")):
        chat = _chat(workspace)
        world.capture().attach(named_store, FIRST, "claude", chat.key)
        assert _row(workspace, FIRST)["status"] == "paused"
        before = _row(workspace, FIRST)["last_active"]
        if said:
            chat._record("user", {"role": "user", "content": said})
        chat.hook(event, source="resume")
        row = _row(workspace, FIRST)
        assert (row["status"], row["tool"]) == ("active", "claude")
        assert row["last_active"] > before, "a resume counts as activity"
        assert named_store.store.get(FIRST).origin.session_id == chat.key
        chat.end()
        assert _row(workspace, FIRST)["status"] == "paused"


@pytest.mark.req("FLOW-01", "SESS-010")
def test_resume_session_attaches_only_an_unambiguous_chat(workspace: Path) -> None:
    chat, idle = _chat(workspace), _chat(workspace)
    idle.say("Nothing to do with it", "No.")
    pond = Pond(Path(os.environ["HOME"]), workspace)
    with served(pond, budget=4_000, more={**os.environ, "CORTEXT_TOOL": "claude"}) as client:
        chat.prompt("Let us go on with the API.")
        listed = client("resume_session")
        assert [row["title"] for row in listed.data["sessions"]] == ["Nothing to do with it", "A pond", "API design"]
        answer = client("resume_session", id="3")
        assert answer.data["attached"] is True
        assert f"attached this chat to {FIRST}" in answer.text
        assert "REST, because it is simple." in answer.data["packet"]
        chat.answer("Picked up.")
        chat.say("What about pagination?", "Cursors.")
        assert _row(workspace, FIRST)["status"] == "active"
        assert "What about pagination?" in _words(workspace, FIRST)
        saved = client("save_session")
        assert saved.data["session"]["id"] == FIRST
        assert "What about pagination?" in git(workspace, "show", "HEAD")

        # Two chats are working: it could be either, so neither is attached, and the answer says so.
        chat.prompt("One more thing")
        idle.prompt("Resume the pond")
        answer = client("resume_session", id=SECOND)
        assert answer.data["attached"] is False
        assert "NOT attached" in answer.text
        assert _row(workspace, SECOND)["status"] == "paused"


@pytest.mark.req("FLOW-01", "SESS-010")
def test_the_program_that_calls_is_known_by_its_own_name(workspace: Path) -> None:
    """Copilot and Kimi Code read `.mcp.json` as well, in which our entry says that it is Claude Code's."""
    chat = _chat(workspace)
    chat.prompt("Let us go on with the API.")
    pond = Pond(Path(os.environ["HOME"]), workspace)
    for name, attached in (("copilot-cli", False), ("claude-code", True)):
        with served(pond, budget=4_000, more={**os.environ, "CORTEXT_TOOL": "claude"}, client=name) as client:
            assert client("resume_session", id=FIRST).data["attached"] is attached, name
