"""What we install in a project for OpenCode, how it is started, and the events of our plugin."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cortext.errors import ConfigError
from cortext.tools.base import CommandFile, HookEvent
from cortext.tools.opencode.adapter import OpenCode
from cortext.tools.shared.jsonc import JsonText

PROGRAM = ["cortext"]
THINK = CommandFile(
    name="workspace.brainstorm",
    description='Think: "widely"',
    text="# Think\n\nTopic: {arguments}\n\n{run}\n\nIt costs $1!`x`\n",
)


@pytest.fixture
def tool(tmp_path: Path) -> OpenCode:
    return OpenCode(str(tmp_path / "home"), {"PATH": ""})


@pytest.mark.req("TOOL-01")
def test_our_files_are_a_plugin_with_the_commands_and_npm_settings(tool: OpenCode) -> None:
    plan = CommandFile(name="workspace.plan", description="Plan", text="# Plan\n", file=".workspace/commands/plan.md")

    files = tool.files([THINK, plan], ["/opt/our tools/cortext", "--flag"])

    assert sorted(files) == [
        ".agents/skills/cortext/SKILL.md",
        ".opencode/.npmrc",
        ".opencode/package.json",
        ".opencode/plugin/cortext.js",
    ]
    plugin = files[".opencode/plugin/cortext.js"].decode("utf-8")
    assert 'const program = ["/opt/our tools/cortext", "--flag", "hook", "opencode"]' in plugin
    commands = json.loads(plugin.partition("const commands = ")[2].partition("\nconst ")[0].replace("},\n}", "}\n}"))
    assert commands == {
        "workspace.brainstorm": {
            "description": 'Think: "widely"',
            "text": "# Think\n\nTopic: {arguments}\n\nIt costs $1!`x`",
        },
        "workspace.plan": {"description": "Plan", "file": ".workspace/commands/plan.md"},
    }


def test_remove_keeps_what_the_user_added_since(tool: OpenCode, tmp_path: Path) -> None:
    path = tmp_path / "opencode.json"
    tool.install_settings(str(tmp_path), PROGRAM)
    edited = JsonText(path.read_text(encoding="utf-8"))
    edited.set(("theme",), "dark")
    path.write_text(edited.text, encoding="utf-8")

    tool.remove_settings(str(tmp_path))

    assert sorted(json.loads(path.read_text(encoding="utf-8"))) == ["$schema", "theme"]


@pytest.mark.parametrize("name", ["opencode.jsonc", ".opencode/opencode.json", ".opencode/opencode.jsonc"])
def test_an_existing_config_file_is_used(tool: OpenCode, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text('{\n  "model": "some/model" // mine\n}\n', encoding="utf-8")

    assert tool.install_settings(str(tmp_path), PROGRAM) == [str(path)]
    assert "// mine" in path.read_text(encoding="utf-8")
    assert tool.remove_settings(str(tmp_path)) == [str(path)]
    assert path.read_text(encoding="utf-8") == '{\n  "model": "some/model" // mine\n}\n'


def test_an_entry_of_the_user_under_our_name_is_left_alone(tool: OpenCode, tmp_path: Path) -> None:
    path = tmp_path / "opencode.json"
    text = '{"mcp": {"cortext": {"type": "local", "command": ["my-own"]}}}'
    path.write_text(text, encoding="utf-8")

    assert tool.install_settings(str(tmp_path), PROGRAM) == []
    assert tool.remove_settings(str(tmp_path)) == []
    assert path.read_text(encoding="utf-8") == text


def test_disabled_mcp_servers_are_not_listed(tool: OpenCode, tmp_path: Path) -> None:
    config = tmp_path / "home/.config/opencode"
    config.mkdir(parents=True)
    (config / "opencode.jsonc").write_text('{"mcp": {"mine": {}, "off": {}, /* no */ "there": {}}}', encoding="utf-8")
    (tmp_path / "opencode.json").write_text('{"mcp": {"off": {"enabled": false}, "here": {}}}', encoding="utf-8")

    assert tool.mcp_servers(str(tmp_path)) == {"mine", "there", "here"}


# ── launching ────────────────────────────────────────────────────────────────────────────────────────


def test_a_launch_without_a_prompt_opens_the_session(tool: OpenCode, tmp_path: Path) -> None:
    assert tool.launch("ses_x", project="/place").argv == ["opencode", "-s", "ses_x"]
    launch = tool.launch("ses_x", project="/place", model="some/model")
    assert (launch.argv[3:], launch.cwd, launch.env) == (["-m", "some/model"], "/place", {})
    assert tool.launch("ses_x", project="/place", model="claude-opus").argv == ["opencode", "-s", "ses_x"]


def test_a_launch_passes_a_long_prompt_in_the_environment(tmp_path: Path) -> None:
    user_config = {"OPENCODE_CONFIG_CONTENT": '{"theme": "x", "plugin": ["mine"],}'}
    tool = OpenCode(str(tmp_path), {"PATH": "", **user_config})
    prompt = "ü\0\ud800" * 30_000

    launch = tool.launch("ses_x", project=str(tmp_path), prompt=prompt, model="some/deep/model")

    content = json.loads(launch.env["OPENCODE_CONFIG_CONTENT"])
    (path, options) = content["plugin"][1]
    assert (content["theme"], content["plugin"][0]) == ("x", "mine")
    assert Path(path.removeprefix("file://")).is_file()
    assert options["model"] == {"providerID": "some", "modelID": "deep/model"}
    chunks = [launch.env[f"CORTEXT_PROMPT_{number}"] for number in range(options["pieces"])]
    assert json.loads("".join(chunks)) == prompt
    assert max(len(value.encode("utf-8")) for value in launch.env.values()) < 128 * 1024
    assert "npm_config_fetch_retries" not in launch.env  # no folder exists that OpenCode would install into

    (tmp_path / ".opencode").mkdir()
    assert tool.launch("ses_x", project=str(tmp_path), prompt="x").env["npm_config_fetch_retries"] == "0"
    misconfigured = OpenCode(str(tmp_path), {"PATH": "", "OPENCODE_CONFIG_CONTENT": "{"})
    with pytest.raises(ConfigError, match="OPENCODE_CONFIG_CONTENT"):
        misconfigured.launch("ses_x", project=str(tmp_path), prompt="x")


# ── events ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        ({"hook_event_name": "session.created"}, {"kind": "started"}),
        ({"hook_event_name": "chat.message", "prompt": "hello"}, {"kind": "prompt", "text": "hello"}),
        ({"hook_event_name": "chat.message", "prompt": "x\n[RESUMED CONVERSATION]\ny"}, {"kind": "started"}),
        (
            {"hook_event_name": "command.execute.before", "command_name": "workspace.plan", "command_args": "a b"},
            {"kind": "command", "command": "workspace.plan", "arguments": "a b"},
        ),
        ({"hook_event_name": "session.idle"}, {"kind": "answered"}),
        ({"hook_event_name": "session.compacted"}, {"kind": "compacted"}),
        ({"hook_event_name": "dispose"}, {"kind": "ended"}),
    ],
)
def test_hook_payloads_become_events(tool: OpenCode, payload: dict[str, Any], expected: dict[str, str]) -> None:
    path = f"{tool.folders.database}#ses_x"

    found = tool.hook_event({"session_id": "ses_x", "cwd": "/place", **payload})

    assert found == HookEvent(key="ses_x", path=path, project="/place", **expected)


def test_other_payloads_are_ignored(tool: OpenCode) -> None:
    assert tool.hook_event({}) is None
    assert tool.hook_event({"hook_event_name": "session.idle"}) is None
    assert tool.hook_event({"hook_event_name": "session.idle", "session_id": "../x"}) is None
    assert tool.hook_event({"hook_event_name": "other", "session_id": "ses_x"}) is None


def test_context_is_returned_only_where_the_plugin_waits(tool: OpenCode) -> None:
    assert json.loads(tool.hook_answer({"hook_event_name": "chat.message"}, "a\nb")) == {"context": "a\nb"}
    assert tool.hook_answer({"hook_event_name": "session.idle"}, "a") == ""
