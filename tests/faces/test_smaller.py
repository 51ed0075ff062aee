"""Small reported problems, each reproduced as it was reported."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from cortext.faces.mcp.calls import SPECS
from cortext.model.message import Message
from cortext.model.session import Change
from cortext.services.workspace.creating import OWN_TOOLS
from cortext.store.files.workspace import WorkspaceStore
from tests.support.cli import Ran, cortext

API = "001-brainstorm-api-design"


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    """Create a workspace for Claude Code with one conversation."""
    folder = tmp_path / "workspace"
    assert cortext("init", str(folder), "--ai", "claude").code == 0
    assert cortext("new", "brainstorm", "API", "design", cwd=folder).code == 0
    said = [Message(role=("user", "assistant")[place % 2], content=f"Word number {place}.") for place in range(6)]
    WorkspaceStore(str(folder)).append(API, *said)
    return folder


def _metadata(workspace: Path, name: str = API) -> dict[str, Any]:
    [path] = workspace.glob(f"conversations/*/{name}/.session/session.json")
    loaded: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return loaded


def _refused(done: Ran, words: str, code: int = 2) -> None:
    assert done.code == code and done.out == "", (done.code, done.out)
    assert words in done.err and "Traceback" not in done.err, done.err


# ── fork ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("FLOW-07")
def test_a_fork_describes_only_the_messages_it_copied(workspace: Path) -> None:
    store = WorkspaceStore(str(workspace))
    store.update(
        API, Change(summary="They ended with the secret plan of step six.", summary_by="agent", summary_covers=6)
    )
    store.update(API, Change(extra={"begun_by": "brainstorm API design", "theirs": 1}))
    made = cortext("fork", "001", "--at", "1", "--json", cwd=workspace).json
    fork = _metadata(workspace, made["id"])
    assert made["id"].startswith("002-") and made["message_count"] == fork["message_count"] == 2
    assert fork["status"] == "paused", "no chat is attached yet"
    assert "secret plan" not in fork["context_summary"] and fork["summary_covers"] == 2
    assert fork["created_at"] <= fork["last_active"]
    assert fork["token_count"] > 0
    assert fork["forked_from"]["session"] == API and fork["theirs"] == 1
    assert "begun_by" not in fork and "continuation" not in fork
    whole = cortext("fork", "001", "--json", cwd=workspace).json
    assert "secret plan" in _metadata(workspace, whole["id"])["context_summary"], "nothing was left out"


# ── invalid numbers and titles ────────────────────────────────────────────────────────────


@pytest.mark.req("LOOK-01")
def test_invalid_numbers_are_refused(workspace: Path) -> None:
    before = _metadata(workspace)
    for at in ("9999", "-1"):
        _refused(cortext("fork", "001", f"--at={at}", cwd=workspace), f"has no message {at}", 1)
    for words in (
        ["list", "--limit=-3"],
        ["similar", "001", "--limit=-3"],
        ["search", "word", "--limit=-3"],
        ["show", "001", "--tail=-2"],
        ["prune", "001", "--keep=-5"],
        ["resume", "001", "--print", "--tokens=-1"],
    ):
        _refused(cortext(*words, cwd=workspace), "at least")
    for title in ("", "  "):
        _refused(cortext("title", "001", title, cwd=workspace), "title is empty")
    assert _metadata(workspace) == before
    assert len(list(workspace.glob("conversations/*/*"))) == 1


# ── types ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("SESS-007", "FLOW-08")
def test_a_type_says_whether_it_keeps_sessions(workspace: Path) -> None:
    path = workspace / ".workspace" / "registry.json"
    written = json.loads(path.read_text(encoding="utf-8"))
    assert all(entry["sessions"] is True for entry in written["types"].values())
    assert cortext("type", "add", "haiku", "--no-sessions", cwd=workspace).code == 0
    written = json.loads(path.read_text(encoding="utf-8"))
    assert written["types"]["haiku"]["sessions"] is False
    written["types"]["debug"]["sessions"] = False
    path.write_text(json.dumps(written), encoding="utf-8")
    listed = cortext("type", "list", cwd=workspace).out
    marked = [line.split()[0] for line in listed.splitlines() if line.endswith("(no sessions)")]
    assert marked == ["debug", "haiku"]
    for name in ("debug", "haiku"):
        _refused(cortext("new", name, "Nothing", cwd=workspace), "no sessions are kept")
        event = {
            "session_id": "11111111-2222-3333-4444-555555555555",
            "hook_event_name": "UserPromptSubmit",
            "cwd": str(workspace),
            "prompt": f"/workspace.{name} Nothing",
            "transcript_path": str(workspace / "none.jsonl"),
        }
        done = cortext("hook", "claude", cwd=workspace, stdin=json.dumps(event))
        assert done.code == 0 and done.out == ""
    assert len(list(workspace.glob("conversations/*/*"))) == 1
    event["prompt"] = "/workspace.plan Something"
    assert "002-plan-something" in cortext("hook", "claude", cwd=workspace, stdin=json.dumps(event)).out


@pytest.mark.req("SESS-007")
def test_a_type_can_be_removed_and_its_conversations_stay(workspace: Path) -> None:
    command = workspace / ".claude" / "commands" / "workspace.haiku.md"
    assert cortext("type", "add", "haiku", "--description", "three lines", cwd=workspace).code == 0
    assert cortext("type", "add", "ode", cwd=workspace).code == 0
    made = cortext("new", "haiku", "Frogs", "--json", cwd=workspace).json["id"]
    assert command.exists()
    (workspace / ".workspace/templates/ode.md").write_text("mine\n", encoding="utf-8")
    assert cortext("type", "remove", "haiku", cwd=workspace).out.startswith("Removed /workspace.haiku.")
    assert (
        "kept, because you edited it: .workspace/templates/ode.md"
        in cortext("type", "remove", "ode", cwd=workspace).out
    )
    assert not command.exists() and not (workspace / ".workspace/commands/haiku.md").exists()
    assert "haiku" not in cortext("type", "list", cwd=workspace).out
    assert cortext("show", made, cwd=workspace).code == 0
    _refused(cortext("type", "remove", "haiku", cwd=workspace), "unknown type haiku", 1)
    _refused(cortext("type", "remove", "plan", cwd=workspace), "plan is built in", 7)


# ── help, init, trust ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("LOOK-01")
def test_help_command_shows_the_help_of_that_command(tmp_path: Path) -> None:
    assert cortext("help", "fork", cwd=tmp_path).out == cortext("fork", "--help", cwd=tmp_path).out
    assert cortext("help", "mcp", cwd=tmp_path).out.startswith("usage: cortext mcp")
    _refused(cortext("help", "frok", cwd=tmp_path), "did you mean fork")
    _refused(cortext("help", "herons", cwd=tmp_path), "unknown command 'herons'")
    assert cortext("help", "help", cwd=tmp_path).out == cortext("help", cwd=tmp_path).out
    assert "\n  mcp " in cortext("help", "--all", cwd=tmp_path).out


@pytest.mark.req("SESS-007")
def test_the_home_folder_becomes_a_workspace_only_with_force(home: Path) -> None:
    before = sorted(os.listdir(home))
    for words in (["init"], ["init", str(home), "--ai", "claude"]):
        _refused(cortext(*words, cwd=home), "is your home folder")
    assert sorted(os.listdir(home)) == before
    assert cortext("init", "--force", "--ai", "claude", cwd=home).code == 0
    assert (home / ".git").is_dir()
    assert cortext("init", "--ai", "claude", cwd=home).code == 0, "it is already a workspace"


@pytest.mark.req("SAFE-04")
def test_trust_shows_what_it_trusts(workspace: Path) -> None:
    assert "nothing to trust" in cortext("trust", cwd=workspace).out
    settings = workspace / ".workspace" / "config.toml"
    settings.write_text('[model]\nname = "openai/evil"\n[workspace]\npause_minutes = 9\n[other]\nkey = 1\n', "utf-8")
    done = cortext("trust", cwd=workspace)
    assert done.code == 0 and "model.name = openai/evil" in done.out and "other.key" in done.out
    assert "pause_minutes" not in done.out, "that one needs no trust"
    assert "Trusted the current settings" in done.out and "(none:" in cortext("trust", cwd=workspace).out


# ── session metadata ─────────────────────────────────────────────────────────────────


@pytest.mark.req("SESS-001b", "SELF-03")
def test_the_tools_that_are_only_set_up_are_told_from_those_that_the_model_had(workspace: Path) -> None:
    assert sorted(OWN_TOOLS) == sorted(SPECS)
    own = [f"mcp__cortext__{name}" for name in SPECS]
    config = _metadata(workspace)["agent_config"]
    assert (config["tools"], sorted(config["tools_configured"])) == ([], sorted(own))
    settings = workspace / ".mcp.json"
    servers = json.loads(settings.read_text(encoding="utf-8"))
    servers["mcpServers"]["github"] = {"command": "github-mcp"}
    settings.write_text(json.dumps(servers), encoding="utf-8")
    event = {
        "session_id": "11111111-2222-3333-4444-555555555555",
        "hook_event_name": "UserPromptSubmit",
        "cwd": str(workspace),
        "prompt": "/workspace.plan Move",
        "transcript_path": str(workspace / "none.jsonl"),
    }
    assert cortext("hook", "claude", cwd=workspace, stdin=json.dumps(event)).code == 0
    config = _metadata(workspace, "002-plan-move")["agent_config"]
    assert (config["tools"], sorted(config["tools_configured"])) == ([], sorted([*own, "mcp__github__*"]))


@pytest.mark.req("SESS-001b")
def test_a_summary_written_by_another_program_stays(workspace: Path) -> None:
    [path] = workspace.glob(f"conversations/*/{API}/.session/session.json")
    fields = json.loads(path.read_text(encoding="utf-8"))
    fields = {name: value for name, value in fields.items() if not name.startswith("summary_")}
    path.write_text(json.dumps({**fields, "context_summary": "We stood at the fork of two designs."}), "utf-8")
    said = [Message(role="user", content=f"More of it, {place}.") for place in range(40)]
    WorkspaceStore(str(workspace)).append(API, *said)
    for _ in range(2):
        assert cortext("stop", "001", "--no-commit", cwd=workspace).code == 0
        assert _metadata(workspace)["context_summary"] == "We stood at the fork of two designs."
        WorkspaceStore(str(workspace)).update(API, Change(status="active"))
