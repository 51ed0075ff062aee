"""Commands, hooks and the MCP entry: added once beside the user's settings, and removed without a trace."""

from __future__ import annotations

import json
import os
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from cortext.errors import ConfigError, UnsafePath, UsageError
from cortext.tools.base import CommandFile
from cortext.tools.gemini_cli.adapter import GeminiCli, gate_environment, wait_for_history
from cortext.tools.gemini_cli.settings import EVENTS
from cortext.tools.shared.commands import RESUMED

PROGRAM = ["/opt/my tools/cortext"]
COMMANDS = [
    CommandFile(name="workspace.brainstorm", description='A "brainstorm"', text="Think about {arguments}.\n"),
    CommandFile(
        name="workspace.resume",
        description="Resume",
        text='Go on.\n\n{run}\n\n"""quoted""" \\ back !{rm -rf} @{/etc/passwd} {{args}}\x7f',
        run=["resume", "--in-tool"],
    ),
]
USER_SETTINGS = {
    "ui": {"theme": "Dracula"},
    "hooks": {
        "AfterAgent": [{"matcher": "*", "hooks": [{"type": "command", "command": "say done"}]}],
        "Notification": [],
    },
    "mcpServers": {"other": {"command": "other"}},
    "unknown": [1, {"deep": "ünï"}],
}


@pytest.fixture
def tool(tmp_path: Path) -> GeminiCli:
    return GeminiCli(environ={"HOME": str(tmp_path / "home"), "PATH": ""})


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def settings(project: Path) -> Any:
    return json.loads((project / ".gemini" / "settings.json").read_text(encoding="utf-8"))


def write_settings(project: Path, text: str) -> Path:
    path = project / ".gemini" / "settings.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def tree(project: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(project)): path.read_bytes() if path.is_file() else None for path in project.rglob("*")
    }


@pytest.mark.req("TOOL-01")
def test_hooks_server_and_retention_are_installed(tool: GeminiCli, project: Path) -> None:
    touched = tool.install_settings(str(project), PROGRAM)

    found = settings(project)
    for event in EVENTS:
        (entry,) = found["hooks"][event]
        (hook,) = entry["hooks"]
        assert hook["command"] == "'/opt/my tools/cortext' hook gemini"
        assert (hook["type"], hook["timeout"]) == ("command", 10_000)
    (compressed,) = found["hooks"]["PreCompress"]
    assert (compressed["matcher"], compressed["hooks"]) == ("manual", [hook])
    assert found["mcpServers"]["cortext"]["command"] == PROGRAM[0]
    assert found["mcpServers"]["cortext"]["args"] == ["mcp"]
    assert found["general"]["sessionRetention"]["enabled"] is False
    assert touched == [str(project / ".gemini" / name) for name in ("cortext.json", "settings.json")]


@pytest.mark.req("TOOL-01")
def test_command_files_have_the_marker_and_escape_expansions(tool: GeminiCli) -> None:
    files = tool.files(COMMANDS, PROGRAM)

    names = ("commands/workspace.brainstorm.toml", "commands/workspace.resume.toml")
    assert list(files) == [*(f".gemini/{name}" for name in names), ".agents/skills/cortext/SKILL.md"]
    first, second = (tomllib.loads(text.decode()) for text in list(files.values())[:2])
    assert first["description"] == 'A "brainstorm"'
    mark = "<!-- cortext:command workspace.brainstorm -->{{args}}<!-- cortext:end -->"
    assert first["prompt"] == f"Think about {{{{args}}}}.\n\n{mark}\n"
    assert second["prompt"].startswith('Go on.\n\n"""quoted""" \\ back ! {rm -rf} @ {/etc/passwd} { {args}}\x7f\n')


@pytest.mark.req("TOOL-01", "SESS-007")
@pytest.mark.parametrize("path", [".workspace/commands/plan.md", "a b.md", "a}.md", ""])
def test_a_command_file_refers_to_the_file_with_the_prompt(tool: GeminiCli, path: str) -> None:
    plan = CommandFile(name="workspace.plan", description="x", text="# Plan {arguments}\n", file=path)

    prompt = tomllib.loads(tool.files([plan], PROGRAM)[".gemini/commands/workspace.plan.toml"].decode())["prompt"]

    if path.startswith("."):
        assert prompt.startswith("@{.workspace/commands/plan.md}\n\n") and "# Plan" not in prompt
        assert prompt.endswith("\n\n<!-- cortext:typed workspace.plan -->\n"), "the tool adds what was typed"
        assert "{{args}}" not in prompt and "!{" not in prompt, "or it would run what the file has in !{}"
    else:
        assert prompt.startswith("# Plan {{args}}\n"), "Gemini CLI might not take the name as it is"


def test_install_keeps_the_users_settings(tool: GeminiCli, project: Path) -> None:
    write_settings(project, json.dumps(USER_SETTINGS, indent=2))

    tool.install_settings(str(project), PROGRAM)

    found = settings(project)
    assert found["ui"] == USER_SETTINGS["ui"] and found["unknown"] == USER_SETTINGS["unknown"]
    assert found["hooks"]["AfterAgent"][0]["hooks"][0]["command"] == "say done"
    assert len(found["hooks"]["AfterAgent"]) == 2
    assert list(found["mcpServers"]) == ["other", "cortext"]


def test_remove_keeps_what_the_user_added_since(tool: GeminiCli, project: Path) -> None:
    tool.install_settings(str(project), PROGRAM)
    found = settings(project)
    found["hooks"]["AfterAgent"].append({"hooks": [{"type": "command", "command": "say done"}]})
    found["ui"] = {"theme": "Ayu"}
    write_settings(project, json.dumps(found))

    assert tool.install_settings(str(project), PROGRAM) == []
    tool.remove_settings(str(project))

    assert settings(project) == {
        "hooks": {"AfterAgent": [{"hooks": [{"type": "command", "command": "say done"}]}]},
        "ui": {"theme": "Ayu"},
    }


def test_a_server_of_the_user_under_our_name_is_left_alone(tool: GeminiCli, project: Path) -> None:
    own = {"mcpServers": {"cortext": {"command": "mine"}}}
    write_settings(project, json.dumps(own, indent=2))
    before = tree(project)

    tool.install_settings(str(project), PROGRAM)
    assert settings(project)["mcpServers"] == own["mcpServers"]
    tool.remove_settings(str(project))

    assert tree(project) == before


@pytest.mark.req("SAFE-03")
def test_a_link_and_unreadable_settings_are_left_alone(tool: GeminiCli, project: Path, tmp_path: Path) -> None:
    target = tmp_path / "dotfiles.json"
    target.write_text("{}", encoding="utf-8")
    (project / ".gemini").mkdir()
    (project / ".gemini" / "settings.json").symlink_to(target)
    with pytest.raises(UnsafePath, match="link"):
        tool.install_settings(str(project), PROGRAM)
    assert target.read_text(encoding="utf-8") == "{}"
    (project / ".gemini" / "settings.json").unlink()
    (project / ".gemini" / "settings.json").write_bytes(b"\xff{}")
    with pytest.raises(ConfigError, match="cannot be read"):
        tool.install_settings(str(project), PROGRAM)


@pytest.mark.req("SAFE-03")
@pytest.mark.parametrize("name", ["../evil", "a/b", "", ".hidden", "x\n"])
def test_a_command_name_that_could_leave_its_folder_is_refused(tool: GeminiCli, name: str) -> None:
    with pytest.raises(UsageError):
        tool.files([CommandFile(name=name, description="", text="")], PROGRAM)


def test_mcp_servers_of_user_and_project_are_listed(tool: GeminiCli, project: Path, tmp_path: Path) -> None:
    assert tool.mcp_servers(str(project)) == set()
    own = tmp_path / "home" / ".gemini" / "settings.json"
    own.parent.mkdir(parents=True)
    own.write_text('{"mcpServers": {"mine": {}}} // comment', encoding="utf-8")
    tool.install_settings(str(project), PROGRAM)
    assert tool.mcp_servers(str(project)) == {"mine", "cortext"}
    own.write_text("{", encoding="utf-8")
    assert tool.mcp_servers(str(project)) == {"cortext"}


# ── launching ────────────────────────────────────────────────────────────────────────────────────────


def write_session(tool: GeminiCli, project: Path) -> str:
    from cortext.model.message import Message

    return tool.write([Message(role="user", content="hello", id="u1")], project=str(project)).key


@pytest.mark.req("SESS-004d")
def test_launch_turns_off_the_deletion_of_sessions(tool: GeminiCli, project: Path) -> None:
    before = tree(project)
    assert tool.launch("NEW", project=str(project), prompt="…").argv == ["gemini", "--resume", "NEW", "-i", "…"]
    assert tree(project) == before, "a preview changes nothing"
    key = write_session(tool, project)

    launch = tool.launch(key, project=str(project), prompt="go on", model="flash")

    assert launch.argv == ["gemini", "--resume", key, "-m", "flash", "-i", "go on"]
    assert launch.cwd == str(project)
    assert launch.changed == [str(project / ".gemini" / name) for name in ("cortext.json", "settings.json")]
    found = settings(project)
    assert found["general"] == {"sessionRetention": {"enabled": False}}
    assert list(found) == ["general", "hooks"] and list(found["hooks"]) == ["BeforeAgent"]
    after = tree(project)
    again = tool.launch(key, project=str(project))
    assert (again.argv, again.changed) == (["gemini", "--resume", key], [])
    assert tree(project) == after
    tool.remove_settings(str(project))
    assert tree(project) == before


def test_launch_changes_nothing_if_the_user_turned_deletion_off(tool: GeminiCli, project: Path, tmp_path: Path) -> None:
    own = tmp_path / "home" / ".gemini" / "settings.json"
    own.parent.mkdir(parents=True)
    text = '{\n  // keep all\n  "general": {"sessionRetention": {"enabled": false}}\n}\n'
    own.write_text(text, encoding="utf-8")

    launch = tool.launch(write_session(tool, project), project=str(project))

    assert launch.env == {} and tree(project) == {} and own.read_text(encoding="utf-8") == text


@pytest.mark.req("SESS-004d")
def test_the_first_prompt_waits_until_the_history_is_loaded(tool: GeminiCli, project: Path) -> None:
    """Gemini CLI loads the session and sends the first prompt concurrently: a hook puts them in order."""
    before = tree(project)
    key = write_session(tool, project)
    path = next(tool.transcripts()).path
    environ = tool.launch(key, project=str(project), prompt="go on").env
    (entry,) = settings(project)["hooks"]["BeforeAgent"]
    command = ["sh", "-c", entry["hooks"][0]["command"]]

    assert not wait_for_history(environ, 0.05), "nothing is loaded yet"
    process = subprocess.Popen(command, env={**os.environ, **environ}, stdin=subprocess.DEVNULL)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.5)
    with open(path, "a", encoding="utf-8") as file:
        file.write(f'{{"$set":{{"sessionId":"{key}"}}}}\n')
    assert process.wait(20) == 0
    assert wait_for_history(environ, 0.05)
    assert wait_for_history({}) and subprocess.run(command, stdin=subprocess.DEVNULL, check=False).returncode == 0

    again = tool.launch(key, project=str(project), prompt="and again").env
    assert not wait_for_history(again, 0.05), "the line of an earlier resume does not count"
    tool.install_settings(str(project), PROGRAM)
    (entry,) = settings(project)["hooks"]["BeforeAgent"]
    assert entry["hooks"][0]["command"].endswith("hook gemini"), "our installed hook waits, too"
    tool.remove_settings(str(project))
    assert tree(project) == before


def test_the_gate_of_an_older_document_watches_the_new_file(tmp_path: Path) -> None:
    path = tmp_path / "session-2026-01-15T10-00-0ld00000.json"
    path.write_text("{}", encoding="utf-8")

    environ = gate_environment(str(path))

    assert not wait_for_history(environ, 0.05)
    path.with_suffix(".jsonl").write_text('{"sessionId":"a"}\n{"$set":{"sessionId":"a"}}\n', encoding="utf-8")
    assert wait_for_history(environ, 0.05)


def test_launch_in_the_home_folder_keeps_the_users_settings(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    tool = GeminiCli(environ={"HOME": str(home), "PATH": ""})

    tool.launch(write_session(tool, home), project=str(home))

    assert not (home / ".gemini" / "settings.json").exists()


# ── hooks ────────────────────────────────────────────────────────────────────────────────────────────


def test_hook_payloads_become_events(tool: GeminiCli) -> None:
    base = {"session_id": "k", "transcript_path": "/t/session-x.jsonl", "cwd": "/p", "timestamp": "2026"}
    prompt = "Think.\n\n<!-- cortext:command workspace.brainstorm -->API design <!-- cortext:end -->\n"
    expected: list[tuple[dict[str, Any], tuple[str, ...] | None]] = [
        ({"hook_event_name": "SessionStart", "source": "startup"}, ("started", "", "", "")),
        ({"hook_event_name": "BeforeAgent", "prompt": "hello"}, ("prompt", "hello", "", "")),
        (
            {"hook_event_name": "BeforeAgent", "prompt": prompt},
            ("command", prompt, "workspace.brainstorm", "API design"),
        ),
        ({"hook_event_name": "AfterAgent", "prompt": "x", "prompt_response": "one  one"}, ("answered", "", "", "")),
        ({"hook_event_name": "SessionEnd", "reason": "exit"}, ("ended", "", "", "")),
        ({"hook_event_name": "BeforeAgent", "prompt": f"a {RESUMED} b"}, ("started", f"a {RESUMED} b", "", "")),
        ({"hook_event_name": "PreCompress", "trigger": "manual"}, ("compacted", "", "", "")),
        ({"hook_event_name": "PreCompress", "trigger": "auto"}, None),
        ({"hook_event_name": "AfterTool"}, None),
        ({"hook_event_name": 7}, None),
    ]
    for more, fields in expected:
        event = tool.hook_event({**base, **more})
        if fields is None:
            assert event is None
            continue
        assert event is not None
        assert (event.kind, event.text, event.command, event.arguments) == fields
        assert (event.key, event.path, event.project) == ("k", "/t/session-x.jsonl", "/p")
    assert tool.hook_event({"hook_event_name": "SessionStart"}) is None


def test_context_is_added_to_prompts_only(tool: GeminiCli) -> None:
    answer = json.loads(tool.hook_answer({"hook_event_name": "BeforeAgent"}, "ünï\n<x>"))

    assert answer["hookSpecificOutput"] == {"hookEventName": "BeforeAgent", "additionalContext": "ünï\n<x>"}
    assert tool.hook_answer({"hook_event_name": "BeforeAgent"}, "") == ""
    assert tool.hook_answer({"hook_event_name": "SessionStart"}, "context") == ""


def test_a_prompt_too_long_for_a_command_line_is_refused(tool: GeminiCli, project: Path) -> None:
    with pytest.raises(UsageError, match="too long"):
        tool.launch("NEW", project=str(project), prompt="ü" * 70_000)
