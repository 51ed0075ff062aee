"""What the programs that we start can see: not our variables, and in their arguments nothing of a conversation."""

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
# What the tools themselves use.
THEIRS = {"ANTHROPIC_API_KEY": "key-of-the-tool", "OPENAI_API_KEY": "another-key", "DATABASE_URL": "postgres://project"}

SYSTEM = "a careful, friendly assistant"  # of the agent that answers by default


@pytest.fixture
def recording(tmp_path: Path) -> Recording:
    return Recording(tmp_path)


@pytest.fixture
def workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, recording: Recording) -> Path:
    folder = committed_workspace(tmp_path / "w", monkeypatch)
    path = os.pathsep.join([str(recording.bin), str(SCRIPTS), os.environ["PATH"]])
    monkeypatch.setenv("PATH", path)
    for name, value in {**SECRETS, **THEIRS}.items():
        monkeypatch.setenv(name, value)
    talk = ClaudeTalk(folder, real_time=True)
    talk.say("/workspace.plan Herons in the reeds", "Begin.", "We count them at dawn.", "Counted: seventeen.")
    talk.end()
    return folder


def _check(env: dict[str, str]) -> None:
    for name, value in SECRETS.items():
        assert name not in env
        assert not any(value in text for text in env.values()), name
    for name, value in THEIRS.items():
        assert env[name] == value


def _ran(*words: str, cwd: Path) -> None:
    done = run([str(SCRIPTS / "cortext"), *words], cwd=cwd)
    assert done.code == 0, done.err


@pytest.mark.req("SAFE-09")
@pytest.mark.parametrize("name", list(VERSIONS))
def test_a_tool_gets_none_of_our_variables_and_our_hooks_get_them_all(
    workspace: Path, recording: Recording, name: str
) -> None:
    _ran("resume", "001", "--ai", name, cwd=workspace)
    env = recording.started(name).env
    _check(env)
    # A process of ours that the tool starts finds what was held back, in a file that is the user's alone.
    held = Path(env["CORTEXT_ENVIRONMENT"])
    assert stat.S_IMODE(held.stat().st_mode) == 0o600
    assert stat.S_IMODE(held.parent.stat().st_mode) == 0o700
    seen = "from cortext.faces.cortext.main import run; import os; run(['--version']); print(dict(os.environ))"
    done = run([str(SCRIPTS / "python"), "-c", seen], cwd=workspace, env={"CORTEXT_ENVIRONMENT": str(held)})
    assert "password-of-our-server" in done.out and "54321" in done.out, done.err
    # The next launch takes away what belonged to a tool that ended.
    _ran("resume", "001", "--ai", name, cwd=workspace)
    assert not held.exists()
    assert len(list(held.parent.iterdir())) == 1


@pytest.mark.req("SAFE-09")
@pytest.mark.parametrize("name", list(VERSIONS))
def test_the_arguments_of_a_tool_tell_nothing_of_the_conversation(
    workspace: Path, recording: Recording, name: str
) -> None:
    """A new native session, the tool's own, and a conversation in which nothing was said yet."""
    _ran("title", "001", "Herons in the reeds", cwd=workspace)
    _ran("new", "plan", "Storks on the roof", cwd=workspace)
    commands = workspace / ".workspace" / "commands" / "plan.md"
    commands.write_text("# Plan\n\nTopic: {arguments}\n", encoding="utf-8")
    private = ("Herons", "reeds", "dawn", "seventeen", "Storks", "roof")
    for words in (["001", "--ai", name], ["001", "--ai", name, "--rewrite"], ["002", "--ai", name]):
        _ran("resume", *words, cwd=workspace)
        started = recording.started(name)
        told = " ".join(started.argv).replace(str(workspace), "")
        assert not [word for word in private if word.lower() in told.lower()], (words, started.argv)
        if name == "opencode":  # in its environment, which only the user can read
            assert "RESUMED CONVERSATION" in started.env["CORTEXT_PROMPT_0"]
        else:
            assert "[RESUMED CONVERSATION]" in told
    if name != "opencode":  # what was begun stands in the tool's own store, readable by the user alone
        stores = {"claude": ".claude/projects", "gemini": ".gemini/tmp", "codex": ".codex/sessions"}
        written = [
            path for path in (Path.home() / stores[name]).rglob("*.jsonl") if "Topic: Storks" in path.read_text("utf-8")
        ]
        assert len(written) == 1 and stat.S_IMODE(written[0].stat().st_mode) == 0o600


@pytest.mark.req("SAFE-09")
def test_a_git_hook_gets_none_of_our_variables(workspace: Path, tmp_path: Path) -> None:
    record = tmp_path / "seen.txt"
    hook = workspace / ".git" / "hooks" / "pre-commit"
    ps = tmp_path / "ps.txt"
    hook.write_text(f'#!/bin/sh\nenv > "{record}"\ncat /proc/$PPID/cmdline > "{ps}"\n', encoding="utf-8")
    hook.chmod(0o755)
    talk = ClaudeTalk(workspace, real_time=True)
    talk.say("/workspace.plan Ducks on ice", "Begin.", "How many?", "Four.")
    _ran("stop", "002", cwd=workspace)
    assert git(workspace, "log", "-1", "--format=%s").startswith("plan: Ducks on ice (session state saved")
    arguments = ps.read_bytes().decode().split("\0")
    assert "commit" in arguments and not any("Ducks on ice" in word for word in arguments)
    _check(dict(line.partition("=")[::2] for line in record.read_text(encoding="utf-8").splitlines()))


@pytest.mark.req("SAFE-09")
@pytest.mark.parametrize("name", list(VERSIONS))
def test_a_program_that_answers_for_us_gets_none_of_our_variables(
    workspace: Path, recording: Recording, name: str
) -> None:
    # It says nothing, so this fails; how it was started is what counts.
    run([str(SCRIPTS / "aur"), "spawn", "--model", f"cli/{name}", "Where do the herons sleep?"], cwd=workspace)
    started = recording.started(name)
    _check(started.env)
    told = "\n".join(started.argv)
    assert "herons" not in told and SYSTEM not in told


@pytest.mark.req("SAFE-09")
def test_a_file_of_somebody_else_is_not_taken_for_ours(workspace: Path, tmp_path: Path) -> None:
    forged = tmp_path / "1.json"
    forged.write_text(json.dumps({"CORTEXT_STORE": "postgresql://nowhere"}), encoding="utf-8")
    for path in (str(forged), "/dev/zero", str(tmp_path)):
        assert cortext("list", cwd=workspace, env={"CORTEXT_ENVIRONMENT": path}).code == 0
