"""`resume` without a real program: the packet as text and as JSON, usage errors, and what changes in the project."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from cortext.model.message import Message, Part
from cortext.model.session import Session
from cortext.store.files.workspace import WorkspaceStore
from cortext.tools.gemini_cli.adapter import GeminiCli
from cortext.wiring.tools import native_writers
from tests.support.claude_talk import ClaudeTalk
from tests.support.cli import cortext, git


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "folder"
    (made / ".workspace").mkdir(parents=True)
    store = WorkspaceStore(str(made))
    store.create(Session(id="001-plan-x", type="plan", title="X", created_at="2026-11-15T10:00:00Z"))
    for number in range(20):
        call = Part(type="tool_call", id=f"c{number}", name="Read", input={"file_path": "src/retry_budget.py"})
        store.append(
            "001-plan-x",
            Message(role="user", content="What is the retry budget?"),
            Message(role="assistant", content="Let us look.", parts=[call]),
            Message(role="tool", parts=[Part(type="tool_result", call_id=call.id, output="größer → 3")]),
            Message(role="assistant", content="Three tries."),
        )
    assert cortext("list", cwd=made).code == 0  # builds the list, so that nothing has to be read again
    return made


@pytest.mark.req("SESS-004a")
@pytest.mark.parametrize("options", [["--print"], ["--print", "--tokens", "800"]], ids=" ".join)
def test_it_prints_the_packet(folder: Path, options: list[str]) -> None:
    ran = cortext("resume", "001", *options, cwd=folder)
    assert ran.code == 0, ran.err
    assert "retry budget" in ran.out


@pytest.mark.req("SESS-004a")
def test_half_a_surrogate_pair_survives_as_json(folder: Path) -> None:
    WorkspaceStore(str(folder)).append("001-plan-x", Message(role="user", content="broken \ud800 here"))
    ran = cortext("resume", "001", "--print", "--json", cwd=folder)
    assert ran.code == 0, ran.err
    assert "broken \ud800 here" in json.loads(ran.out)["packet"]


@pytest.mark.req("SESS-004a")
@pytest.mark.parametrize("name", [writer.name for writer in native_writers()])
def test_a_dry_run_has_no_note_about_the_session_that_it_would_write(
    folder: Path, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    codex = tmp_path / "bin" / "codex"  # the only one that must be installed for its command line
    codex.parent.mkdir()
    codex.write_text("#!/bin/sh\n", encoding="utf-8")
    codex.chmod(0o755)
    monkeypatch.setenv("PATH", f"{codex.parent}{os.pathsep}{os.environ['PATH']}")
    planned = cortext("resume", "001", "--ai", name, "--dry-run", "--json", cwd=folder).json
    assert planned["how"] == "a new native session" and planned["warnings"] == []
    assert len(planned["argv"]) > 1, "it is shown that there are arguments"
    if name == "aider":
        assert "--restore-chat-history" in planned["argv"], "its own options"


@pytest.mark.req("SESS-004a")
def test_a_model_that_continue_cannot_be_told_is_named(folder: Path) -> None:
    words = ("resume", "001", "--ai", "continue", "--dry-run", "--json")
    assert cortext(*words, "--model", "acme/heron-1", cwd=folder).json["warnings"] == []
    assert cortext(*words, cwd=folder).json["warnings"] == []
    (warning,) = cortext(*words, "--model", "heron-1", cwd=folder).json["warnings"]
    assert warning.startswith("Continue starts with the model of its own config, not with heron-1")


@pytest.mark.req("SESS-004a")
def test_a_dry_run_says_that_the_tool_is_not_installed(folder: Path) -> None:
    planned = cortext("resume", "001", "--ai", "codex", "--dry-run", "--json", cwd=folder).json
    assert planned["warnings"] == ["Codex is not installed here"]


def test_an_unknown_option_is_a_usage_error(folder: Path) -> None:
    ran = cortext("resume", "--nonsense", cwd=folder)
    assert ran.code == 2
    assert "unrecognized arguments: --nonsense" in ran.err


@pytest.mark.req("SESS-004d")
def test_a_resume_says_what_it_changed_in_the_project(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "programs" / "gemini"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\necho {GeminiCli.tested_version}\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    ran = cortext("resume", "001", "--ai", "gemini", cwd=folder)
    assert ran.code == 0, ran.err
    assert "changed    .gemini/cortext.json and .gemini/settings.json, as Gemini CLI needs it" in ran.err
    assert (folder / ".gemini" / "settings.json").is_file()
    again = cortext("resume", "001", "--ai", "gemini", cwd=folder)
    assert again.code == 0 and ".gemini" not in again.err


@pytest.mark.req("SESS-005c")
def test_what_only_shows_a_resume_says_that_it_was_completed(folder: Path) -> None:
    assert cortext("complete", "001", cwd=folder).code == 0
    note = "it was marked as completed"
    dry = cortext("resume", "001", "--ai", "claude", "--dry-run", cwd=folder)
    assert f"note       {note}" in dry.out
    printed = cortext("resume", "001", "--print", cwd=folder)
    assert printed.code == 0 and f"Note: {note}." in printed.err and note not in printed.out
    for options in (["--dry-run", "--ai", "claude"], ["--print"]):
        assert note in cortext("resume", "001", *options, "--json", cwd=folder).json["warnings"]


@pytest.mark.req("SESS-003b")
def test_a_new_conversation_shows_what_would_start(folder: Path) -> None:
    WorkspaceStore(str(folder)).create(Session(id="002-plan-y", type="plan", title="Y"))
    dry = cortext("resume", "002", "--ai", "claude", "--dry-run", cwd=folder)
    assert "new        nothing has been said in it yet; the model gets the command and the block, about" in dry.out
    assert "0 of 0" not in dry.out and "carried" not in dry.out
    printed = cortext("resume", "002", "--print", cwd=folder).out
    assert "This conversation has been created; nothing has been said in it yet." in printed
    assert "continuing a previous conversation" not in printed and "history" not in printed


def _workspace(folder: Path) -> Path:
    """Return a repository with two commits, and the skill `heron` for Claude Code."""
    skill = folder / ".claude" / "skills" / "heron" / "SKILL.md"
    skill.parent.mkdir(parents=True)
    skill.write_text("# Heron\n", encoding="utf-8")
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", ".")
    git(folder, "commit", "-qm", "first")
    return folder


@pytest.mark.req("SESS-003d")
def test_branch_commit_and_skills_that_are_not_as_they_were_are_in_the_receipt(tmp_path: Path) -> None:
    folder = _workspace(tmp_path / "w")
    talk = ClaudeTalk(folder, real_time=True)
    talk.note_skills("heron", "bundled-with-the-program")
    talk.say("Count the herons.", "There are two.")
    (row,) = cortext("list", "--json", cwd=folder).json
    words = ("resume", row["id"], "--ai", "claude", "--dry-run", "--json")
    assert cortext(*words, cwd=folder).json["receipt"]["differs"] == "", "nothing has changed"

    then = git(folder, "rev-parse", "HEAD").strip()[:9]
    (folder / "conversations").mkdir()
    (folder / "conversations" / "a.md").write_text("a\n", encoding="utf-8")
    git(folder, "add", "conversations")
    git(folder, "commit", "-qm", "a conversation")
    assert cortext(*words, cwd=folder).json["receipt"]["differs"] == "", "our own commits change nothing"

    git(folder, "checkout", "-qb", "feature")
    git(folder, "rm", "-qr", ".claude")
    git(folder, "commit", "-qm", "no skill")
    now = git(folder, "rev-parse", "HEAD").strip()[:9]
    checkout = f"branch feature (it was main), HEAD {now} (it was {then}, 1 commit ago)"
    said = f"{checkout}; not set up in Claude Code here: skill heron"
    assert cortext(*words, cwd=folder).json["receipt"]["differs"] == said
    assert f"differs {said}" in " ".join(cortext(*words[:-1], cwd=folder).out.split())
    printed = cortext("resume", row["id"], "--print", "--json", cwd=folder).json["receipt"]
    assert printed["differs"] == checkout


@pytest.mark.req("SESS-003d")
def test_a_branch_that_only_the_tool_recorded_is_compared_too(tmp_path: Path) -> None:
    folder = _workspace(tmp_path / "w")
    talk = ClaudeTalk(folder)  # long ago, on main
    talk.say("Count the herons.", "There are two.")
    (row,) = cortext("list", "--json", cwd=folder).json
    git(folder, "checkout", "-qb", "feature")
    planned = cortext("resume", row["id"], "--ai", "claude", "--dry-run", "--json", cwd=folder).json
    assert planned["receipt"]["differs"] == "branch feature (it was main)"
