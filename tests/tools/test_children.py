"""Programs that cortext starts see none of its variables, and their arguments contain nothing of a conversation."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest
from tests.support.claude_talk import ClaudeTalk
from tests.support.cli import SCRIPTS, committed_workspace, cortext, git, run
from tests.support.recording import VERSIONS, Recording

SECRETS = {
    "TELEGRAM_BOT_TOKEN": "123456:telegram-token-of-ours",
    "PGPASSWORD": "password-of-our-server",
    "CORTEXT_RESUME_TOKENS": "54321",
    "CORTEXT_TELEGRAM_ALLOWED_USERS": "4711",
}
# Variables that the tools themselves use.
TOOL_VARIABLES = {
    "ANTHROPIC_API_KEY": "key-of-the-tool",
    "OPENAI_API_KEY": "another-key",
    "DATABASE_URL": "postgres://project",
}

SYSTEM = "a careful, friendly assistant"  # from the system prompt of the default agent


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    return Recording(tmp_path)


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recording: Recording) -> Path:
    folder = committed_workspace(tmp_path / "w", monkeypatch)
    path = os.pathsep.join([str(recording.bin), str(SCRIPTS), os.environ["PATH"]])
    monkeypatch.setenv("PATH", path)
    for name, value in {**SECRETS, **TOOL_VARIABLES}.items():
        monkeypatch.setenv(name, value)
    talk = ClaudeTalk(folder, real_time=True)
    talk.say("/workspace.plan Herons in the reeds", "Begin.", "We count them at dawn.", "Counted: seventeen.")
    talk.end()
    return folder


def _check_environment(env: dict[str, str]) -> None:
    for name, value in SECRETS.items():
        assert name not in env
        assert not any(value in text for text in env.values()), name
    for name, value in TOOL_VARIABLES.items():
        assert env[name] == value


def _run_cortext(*arguments: str, cwd: Path) -> None:
    done = run([str(SCRIPTS / "cortext"), *arguments], cwd=cwd)
    assert done.code == 0, done.err


@pytest.mark.req("SAFE-09")
@pytest.mark.parametrize("name", list(VERSIONS))
def test_our_variables_are_held_back_from_a_tool_but_reach_our_hooks(
    workspace: Path, recording: Recording, name: str
) -> None:
    _run_cortext("resume", "001", "--ai", name, cwd=workspace)
    env = recording.started(name).env
    _check_environment(env)
    # A cortext process that the tool starts reads them from a file that only the user can read.
    held = Path(env["CORTEXT_ENVIRONMENT"])
    assert stat.S_IMODE(held.stat().st_mode) == 0o600
    assert stat.S_IMODE(held.parent.stat().st_mode) == 0o700
    script = "from cortext.faces.cortext.main import run; import os; run(['--version']); print(dict(os.environ))"
    done = run([str(SCRIPTS / "python"), "-c", script], cwd=workspace, env={"CORTEXT_ENVIRONMENT": str(held)})
    assert "password-of-our-server" in done.out and "54321" in done.out, done.err
    # The next launch removes the file of a tool that has ended.
    _run_cortext("resume", "001", "--ai", name, cwd=workspace)
    assert not held.exists()
    assert len(list(held.parent.iterdir())) == 1


@pytest.mark.req("SAFE-09")
@pytest.mark.parametrize("name", list(VERSIONS))
def test_the_arguments_of_a_tool_contain_nothing_of_the_conversation(
    workspace: Path, recording: Recording, name: str
) -> None:
    """Covers the tool's own session, a new native session, and a conversation without messages."""
    _run_cortext("title", "001", "Herons in the reeds", cwd=workspace)
    _run_cortext("new", "plan", "Storks on the roof", cwd=workspace)
    commands = workspace / ".workspace" / "commands" / "plan.md"
    commands.write_text("# Plan\n\nTopic: {arguments}\n", encoding="utf-8")
    private = ("Herons", "reeds", "dawn", "seventeen", "Storks", "roof")
    for options in (["001", "--ai", name], ["001", "--ai", name, "--rewrite"], ["002", "--ai", name]):
        _run_cortext("resume", *options, cwd=workspace)
        started = recording.started(name)
        arguments = " ".join(started.argv).replace(str(workspace), "")
        assert not [word for word in private if word.lower() in arguments.lower()], (options, started.argv)
        if name == "opencode":  # the prompt is in its environment, which only the user can read
            assert "RESUMED CONVERSATION" in started.env["CORTEXT_PROMPT_0"]
        else:
            assert "[RESUMED CONVERSATION]" in arguments
    if name != "opencode":  # the prompt is in the tool's own store, which only the user can read
        stores = {"claude": ".claude/projects", "gemini": ".gemini/tmp", "codex": ".codex/sessions"}
        written = [
            path
            for path in (Path.home() / stores[name]).rglob("*.jsonl")
            if "Storks on the roof" in path.read_text("utf-8")
        ]
        assert len(written) == 1 and stat.S_IMODE(written[0].stat().st_mode) == 0o600


@pytest.mark.req("SAFE-09")
def test_a_git_hook_gets_none_of_our_variables(workspace: Path, tmp_path: Path) -> None:
    environment = tmp_path / "environment.txt"
    hook = workspace / ".git" / "hooks" / "pre-commit"
    ps = tmp_path / "ps.txt"
    hook.write_text(f'#!/bin/sh\nenv > "{environment}"\ncat /proc/$PPID/cmdline > "{ps}"\n', encoding="utf-8")
    hook.chmod(0o755)
    talk = ClaudeTalk(workspace, real_time=True)
    talk.say("/workspace.plan Ducks on ice", "Begin.", "How many?", "Four.")
    _run_cortext("stop", "002", cwd=workspace)
    assert git(workspace, "log", "-1", "--format=%s").startswith("plan: Ducks on ice (session state saved")
    arguments = ps.read_bytes().decode().split("\0")
    assert "commit" in arguments and not any("Ducks on ice" in argument for argument in arguments)
    _check_environment(dict(line.partition("=")[::2] for line in environment.read_text(encoding="utf-8").splitlines()))


@pytest.mark.req("SAFE-09")
@pytest.mark.parametrize("name", list(VERSIONS))
def test_a_program_that_is_used_as_a_model_gets_none_of_our_variables(
    workspace: Path, recording: Recording, name: str
) -> None:
    # The recording program prints no answer, so the command fails; the test is about how the program was started.
    run([str(SCRIPTS / "aur"), "spawn", "--model", f"cli/{name}", "Where do the herons sleep?"], cwd=workspace)
    started = recording.started(name)
    _check_environment(started.env)
    arguments = "\n".join(started.argv)
    assert "herons" not in arguments and SYSTEM not in arguments


@pytest.mark.req("SAFE-09")
def test_a_forged_file_of_variables_is_not_adopted(workspace: Path, tmp_path: Path) -> None:
    forged = tmp_path / "1.json"
    forged.write_text(json.dumps({"CORTEXT_STORE": "postgresql://nowhere"}), encoding="utf-8")
    for path in (str(forged), "/dev/zero", str(tmp_path)):
        assert cortext("list", cwd=workspace, env={"CORTEXT_ENVIRONMENT": path}).code == 0
