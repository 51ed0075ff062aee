"""What is said to cortext, and what programs write by themselves, is kept, but is not part of the talk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cortext.model.asides import only_asks, with_asides
from cortext.model.message import ASSISTANT, SYSTEM, TOOL, USER, Message, Part
from cortext.model.threads import thread
from cortext.testing.table import every_row
from cortext.wiring.stores import Stores
from tests.support.claude_talk import ClaudeTalk
from tests.support.cli import committed_workspace, cortext, git

NAME = "001-brainstorm-api-design"
NOTICE = "<task-notification>\n<task-id>b1</task-id>\n<status>completed</status>\n</task-notification>"
FILLER = "No response requested."
REMINDER = "<system-reminder>\nThe pond has changed.\n</system-reminder>"


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Create an empty workspace."""
    return committed_workspace(tmp_path / "w", monkeypatch)


def _log(workspace: Path) -> list[Message]:
    return list(Stores(str(workspace)).workspace_store().store.read(NAME))


def _row(workspace: Path) -> dict[str, Any]:
    return next(row for row in cortext("list", "--json", cwd=workspace).json if row["id"] == NAME)


@pytest.mark.req("SELF-05")
def test_commands_fillers_and_notices_are_kept_as_asides(workspace: Path) -> None:
    first = ClaudeTalk(workspace, real_time=True)
    first.say("/workspace.brainstorm API design", "What is the core problem?", "REST or GraphQL?", "REST.")
    first.write(NOTICE, FILLER)
    first.say("And the cursors?", "Valid for an hour.")
    first.say("/workspace.stop-conversation", "It is saved; /workspace.resume goes on.")
    first.end()
    second = ClaudeTalk(workspace, real_time=True)
    second.resume()
    second.resume(NAME)
    second.say("And the limits?", "A hundred a minute.", "/workspace.stop-conversation", "Saved again.")
    second.end()

    talk = [
        "/workspace.brainstorm API design", "What is the core problem?", "REST or GraphQL?", "REST.",
        "And the cursors?", "Valid for an hour.", "And the limits?", "A hundred a minute.",
    ]  # fmt: skip
    log = _log(workspace)
    assert [message.content for message in thread(log)] == talk
    kept = [message.content for message in log]
    for aside in (NOTICE, FILLER, "/workspace.stop-conversation", "Saved again.", "So it is."):
        assert aside in kept, "nothing is lost"
    assert next(message.role for message in log if message.content == NOTICE) == SYSTEM
    assert _row(workspace)["message_count"] == len(talk)
    fields = json.loads(next(workspace.glob("conversations/*/*/.session/session.json")).read_text(encoding="utf-8"))
    assert (fields["message_count"], fields["aside_count"]) == (len(talk), len(log) - len(talk))
    printed = cortext("resume", NAME, "--print", cwd=workspace).out
    assert "A hundred a minute." in printed
    for text in ("It is saved;", "So it is.", "Saved again.", "task-notification", FILLER):
        assert text not in printed, text
    assert "Saved again" not in _row(workspace)["summary"]
    shown = cortext("show", NAME, "--no-pager", cwd=workspace).out
    assert "Saved again." not in shown and FILLER not in shown and "A hundred a minute." in shown
    assert "Saved again." in cortext("show", NAME, "--no-pager", "--tools", cwd=workspace).out


@pytest.mark.req("SELF-05", "SESS-006a")
def test_one_stop_is_one_commit(workspace: Path) -> None:
    def commits() -> list[str]:
        return git(workspace, "log", "--format=%s").splitlines()

    talk = ClaudeTalk(workspace, real_time=True)
    talk.say("/workspace.brainstorm API design", "What is the core problem?", "REST or GraphQL?", "REST.")
    before = commits()
    talk.prompt("/workspace.stop-conversation")
    assert len(commits()) == len(before) + 1
    stopped = commits()[0]
    talk.answer("It is saved.")
    talk.end()
    assert commits() == [stopped, *before]
    assert git(workspace, "status", "--porcelain", "--", "conversations") == ""
    assert "It is saved." in git(workspace, "show", "HEAD")
    # What somebody else has already, or added to, is not changed.
    talk.say("And the cursors?", "Valid for an hour.")
    talk.prompt("/workspace.stop-conversation")
    git(workspace, "branch", "shared")
    shared = git(workspace, "rev-parse", "HEAD")
    talk.answer("Saved again.")
    assert git(workspace, "rev-parse", "HEAD~1", "shared").split() == [shared.strip()] * 2
    talk.say("And the limits?", "A hundred a minute.")
    talk.prompt("/workspace.stop-conversation")
    (workspace / "mine.txt").write_text("mine", encoding="utf-8")
    git(workspace, "add", "mine.txt")
    git(workspace, "commit", "-qm", "mine")
    talk.answer("Saved once more.")
    assert commits()[1] == "mine"
    assert git(workspace, "status", "--porcelain", "--", "conversations") == ""


def _said(role: str, text: str = "", *calls: str) -> Message:
    parts = [Part("tool_call", id="c", name=call, input={"command": "ls"}) for call in calls]
    return Message(role=role, content=text, parts=parts or None)


@pytest.mark.req("SELF-05")
@every_row(
    ("messages", "talk"),
    [
        ([_said(USER, "/workspace.stop-conversation"), _said(ASSISTANT, "Saved.")], ""),
        ([_said(USER, "$workspace-resume 2"), _said(ASSISTANT, "Picked up."), _said(USER, "Go on")], "Go on"),
        ([_said(USER, "/workspace.resume"), _said(ASSISTANT, "1. a"), _said(USER, "1"), _said(ASSISTANT, "b")], ""),
        ([_said(USER, "Which?"), _said(ASSISTANT, "1. a\n2. b"), _said(USER, "2")], "Which?|1. a\n2. b|2"),
        ([_said(USER, "/workspace.resume 1"), _said(ASSISTANT, "", "mcp__cortext__resume_session"), _said(TOOL)], ""),
        ([_said(USER, "/workspace.resume 1"), _said(ASSISTANT, "Now the tests:", "Bash")], "Now the tests:"),
        ([_said(USER, "/workspace.stop-conversation"), _said(ASSISTANT, "The notes:", "Edit")], ""),
        ([_said(USER, "/workspace.resumed is no command")], "/workspace.resumed is no command"),
        ([_said(USER, "What does /workspace.resume do?")], "What does /workspace.resume do?"),
        ([_said(USER, "/workspace.plan A pond"), _said(ASSISTANT, "Go on.")], "/workspace.plan A pond|Go on."),
        ([_said(USER, NOTICE), _said(ASSISTANT, "The build is done.")], "The build is done."),
        ([_said(ASSISTANT, FILLER), _said(USER, "Who says “No response”?")], "Who says “No response”?"),
        ([_said(USER, "[Request interrupted by user for tool use]"), _said(USER, "Go on")], "Go on"),
        (
            [_said(USER, "[Request interrupted by user] was shown: why?")],
            "[Request interrupted by user] was shown: why?",
        ),
        ([_said(ASSISTANT, "(no content)"), _said(ASSISTANT, "Two.")], "Two."),
        ([_said(ASSISTANT, "(no content)", "Bash"), _said(TOOL)], "(no content)|"),
        ([_said(SYSTEM, "Interrupted by user"), _said(USER, "Go on")], "Go on"),
        ([_said(ASSISTANT, "We interrupted the existing call to shell. How would you like to proceed?")], ""),
        ([_said(USER, f"{REMINDER}\n{REMINDER}"), _said(USER, f"{REMINDER}\nMine.")], f"{REMINDER}\nMine."),
        ([_said(USER, "<local-command-caveat>Caveat: The messages below …</local-command-caveat>")], ""),
        *(
            ([_said(USER, f"{form} now"), _said(ASSISTANT, "Saved."), _said(USER, "Go on")], "Go on")
            for form in (
                "[$workspace-stop-conversation](/a (copy)/.agents/skills/workspace-stop-conversation/SKILL.md)",
                "$workspace-stop-conversation",
                "/skill:workspace-stop-conversation",
                "/workspace-stop-conversation",
                " /workspace.stop-conversation",
            )
        ),
        ([_said(USER, "[$workspace-plan](/p/SKILL.md) A pond")], "[$workspace-plan](/p/SKILL.md) A pond"),
        ([_said(USER, "see [$workspace-stop-conversation](/p)")], "see [$workspace-stop-conversation](/p)"),
    ],
)
def test_one_function_says_what_the_talk_is(messages: list[Message], talk: str) -> None:
    marked = list(with_asides(messages))
    assert "|".join(message.content for message in marked if not message.aside) == talk
    assert len(marked) == len(messages)


@pytest.mark.req("SELF-05")
def test_an_answer_that_is_read_later_belongs_to_its_command() -> None:
    asked = list(with_asides([_said(USER, "/workspace.stop-conversation")]))
    assert next(with_asides([_said(ASSISTANT, "Saved.")], asked[-1])).aside
    assert not next(with_asides([_said(ASSISTANT, "Yes.")], _said(USER, "Is it?"))).aside
    assert only_asks(asked) and not only_asks([*asked, _said(USER, "Herons")]) and not only_asks([])


@pytest.mark.req("SELF-05")
def test_a_stored_message_has_only_fields_that_something_reads(workspace: Path) -> None:
    talk = ClaudeTalk(workspace)
    talk.say("/workspace.brainstorm API design", "What is the core problem?")
    asked: dict[str, object] = {"role": "user", "content": "REST or GraphQL?"}
    talk._record("user", asked, origin={"kind": "channel", "server": "x"}, promptId="p", permissionMode="default")
    usage = {"input_tokens": 10, "output_tokens": 5, "cache_read_input_tokens": 3, "cache_creation_input_tokens": 1}
    answer: dict[str, object] = {
        "id": "msg_1",
        "role": "assistant",
        "model": "m",
        "content": [{"type": "text", "text": "REST."}],
    }
    answer |= {"stop_reason": "end_turn", "usage": usage | {"service_tier": "standard", "server_tool_use": {}}}
    talk._record("assistant", answer, requestId="req_1", gitBranch="main")
    talk.end()
    log = next(workspace.glob("conversations/*/*/.session/messages.jsonl"))
    question, reply = map(json.loads, log.read_text(encoding="utf-8").splitlines()[-2:])
    assert set(question) == {"role", "content", "timestamp", "tokens", "id", "seq"}
    assert set(reply) == {*question, "model", "usage", "extra"}
    assert (reply["usage"], reply["extra"]) == (usage, {"call": "msg_1:req_1"})


@pytest.mark.req("SESS-007")
def test_of_a_type_without_sessions_nothing_is_stored(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = committed_workspace(tmp_path / "w", monkeypatch)
    assert cortext("type", "add", "diary", cwd=folder).code == 0
    registry = folder / ".workspace/registry.json"
    known = json.loads(registry.read_text(encoding="utf-8"))
    known["types"]["diary"]["sessions"] = False
    registry.write_text(json.dumps(known), encoding="utf-8")

    alone = ClaudeTalk(folder)  # the whole chat is of this type
    alone.say("/workspace.diary Monday", "Write.", "I am afraid of herons, Ornithophobia.", "That is all right.")
    alone.end()
    mixed = ClaudeTalk(folder)  # it begins and ends in between
    mixed.say("How deep is the pond?", "Two metres.", "/workspace.diary", "Write.", "Ornithophobia again.", "I see.")
    mixed.say("/workspace.related herons", "Nothing.", "Still Ornithophobia.", "Yes.")
    mixed.say("/workspace.brainstorm Bridges", "Which?", "Over the pond.", "Of wood.")
    mixed.end()
    for again in range(2):
        assert cortext("sync", cwd=folder).code == 0
        rows = {row["title"]: row["message_count"] for row in cortext("list", "--json", cwd=folder).json}
        assert set(rows) == {"How deep is the pond?", "Bridges"}, again
        assert "Ornithophobia" not in cortext("search", "Ornithophobia", "--json", cwd=folder).out
        shown = cortext("show", "Bridges", cwd=folder).out
        assert "Over the pond." in shown and "Of wood." in shown
    own = home / ".claude"
    for path in (*home.rglob("*"), *folder.rglob("*")):
        if path.is_file() and own not in path.parents:
            assert b"Ornithophobia" not in path.read_bytes(), path
    assert b"Ornithophobia" in alone.path.read_bytes()
