"""What goes into a project: merged with what the user has, once, and out again to the byte."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from cortext.errors import ConfigError
from cortext.tools.base import CommandFile
from cortext.tools.claude_code.adapter import ClaudeCode
from cortext.tools.claude_code.install import EVENTS

PROGRAM = ["/opt/my tools/cortext", "--quiet"]
HOOK = "'/opt/my tools/cortext' --quiet hook claude # cortext"

tool = ClaudeCode(home="/nowhere", environ={})


def settings(project: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((project / ".claude/settings.json").read_text(encoding="utf-8"))
    return value


def hooks_of(project: Path, event: str) -> list[str]:
    return [hook["command"] for group in settings(project)["hooks"][event] for hook in group["hooks"]]


# ── into an empty project ────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("TOOL-01")
def test_hooks_and_server_are_put_in_once_and_taken_out_without_a_trace(tmp_path: Path) -> None:
    changed = tool.install_settings(str(tmp_path), PROGRAM)

    assert sorted(changed) == [str(tmp_path / ".claude/settings.json"), str(tmp_path / ".mcp.json")]
    assert all(hooks_of(tmp_path, event) == [HOOK] for event in EVENTS)
    server = json.loads((tmp_path / ".mcp.json").read_text(encoding="utf-8"))["mcpServers"]["cortext"]
    assert [server["command"], *server["args"]] == [*PROGRAM, "mcp"]
    assert stat.S_IMODE((tmp_path / ".mcp.json").stat().st_mode) == 0o600

    assert tool.install_settings(str(tmp_path), PROGRAM) == []
    assert sorted(tool.remove_settings(str(tmp_path))) == sorted(changed)
    assert list(tmp_path.iterdir()) == []
    assert tool.remove_settings(str(tmp_path)) == []


def test_another_program_takes_the_place_of_the_first(tmp_path: Path) -> None:
    tool.install_settings(str(tmp_path), ["cortext"])
    assert len(tool.install_settings(str(tmp_path), PROGRAM)) == 2

    assert all(hooks_of(tmp_path, event) == [HOOK] for event in EVENTS)
    assert "cortext" in json.loads((tmp_path / ".mcp.json").read_text(encoding="utf-8"))["mcpServers"]
    tool.remove_settings(str(tmp_path))
    assert list(tmp_path.iterdir()) == []


# ── beside what the user has ─────────────────────────────────────────────────────────────────────────

USERS_SETTINGS = """{
  "permissions": {"allow": ["Bash(git log:*)", "Read"]},
  "hooks": {
    "Stop": [
      {
        "matcher": "",
        "hooks": [{ "type": "command", "command": "say done" }]
      }
    ],
    "PreToolUse": []
  },
  "futureThing": [1.50, 1e3, "\\u00e9", "é"]
}
"""


@pytest.mark.req("TOOL-01")
@pytest.mark.parametrize(
    "text",
    [
        USERS_SETTINGS,
        "{}",
        "{}\n",
        "{ }\n",
        '{"hooks": {}}',
        '{\n  "hooks": {\n  }\n}\n',
        '{\n  "hooks": {\n    "Stop": []\n  }\n}\n',
        '{\n\t"a": 1,\n\t"hooks": {"Stop": [ ]}\n}',
        '{"a":1}',
        '{\r\n    "a": {"b": [1,2]}\r\n}\r\n',
        '  {"a": "}{", "hooks": {"SessionEnd": [{"hooks": []}]}}  ',
    ],
)
def test_what_the_user_has_stays_to_the_byte(tmp_path: Path, text: str) -> None:
    path = tmp_path / ".claude/settings.json"
    path.parent.mkdir()
    path.write_bytes(text.encode())
    servers = '{"mcpServers": {"mine": {"command": "x"}}}'
    (tmp_path / ".mcp.json").write_text(servers, encoding="utf-8")
    users = json.loads(text)

    tool.install_settings(str(tmp_path), ["cortext"])

    merged = settings(tmp_path)
    for event in EVENTS:
        assert hooks_of(tmp_path, event)[-1].startswith("cortext hook claude # cortext")
        theirs = users.get("hooks", {}).get(event, [])
        assert merged["hooks"][event][: len(theirs)] == theirs
    assert {name: value for name, value in merged.items() if name != "hooks"} == {
        name: value for name, value in users.items() if name != "hooks"
    }
    assert tool.install_settings(str(tmp_path), ["cortext"]) == []

    tool.remove_settings(str(tmp_path))
    assert path.read_bytes().decode() == text
    assert (tmp_path / ".mcp.json").read_text(encoding="utf-8") == servers


@pytest.mark.parametrize(
    "text", ["{}", '{"mcpServers": {}}', '{\n  "mcpServers": {\n    "a": {}\n  }\n}\n', '{"x": 1}\n']
)
def test_the_users_servers_stay_to_the_byte(tmp_path: Path, text: str) -> None:
    path = tmp_path / ".mcp.json"
    path.write_text(text, encoding="utf-8")

    tool.install_settings(str(tmp_path), ["cortext"])
    tool.remove_settings(str(tmp_path))

    assert path.read_text(encoding="utf-8") == text


def test_what_the_user_adds_later_stays_when_we_go(tmp_path: Path) -> None:
    tool.install_settings(str(tmp_path), ["cortext"])
    mixed = settings(tmp_path)
    mixed["hooks"]["Stop"][0]["hooks"].append({"type": "command", "command": "say done"})
    mixed["hooks"]["SessionEnd"].insert(0, {"hooks": [{"type": "command", "command": "say bye"}]})
    mixed["model"] = "opus"
    (tmp_path / ".claude/settings.json").write_text(json.dumps(mixed), encoding="utf-8")

    assert tool.install_settings(str(tmp_path), ["cortext"]) == []
    tool.remove_settings(str(tmp_path))

    assert settings(tmp_path) == {
        "hooks": {
            "Stop": [{"hooks": [{"type": "command", "command": "say done"}]}],
            "SessionEnd": [{"hooks": [{"type": "command", "command": "say bye"}]}],
        },
        "model": "opus",
    }


def test_a_server_of_that_name_that_is_not_ours_stays(tmp_path: Path) -> None:
    text = '{"mcpServers": {"cortext": {"command": "somebody-elses", "args": ["mcp"]}}}'
    (tmp_path / ".mcp.json").write_text(text, encoding="utf-8")

    assert tool.install_settings(str(tmp_path), ["cortext"]) == [str(tmp_path / ".claude/settings.json")]
    tool.remove_settings(str(tmp_path))

    assert (tmp_path / ".mcp.json").read_text(encoding="utf-8") == text


_NO_OBJECTS = ["{", "", "// mine\n{}", "[]", '"text"', "[" * 100_000]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        *((name, text) for name in (".claude/settings.json", ".mcp.json") for text in _NO_OBJECTS),
        (".claude/settings.json", '{"hooks": []}'),
        (".claude/settings.json", '{"hooks": {"Stop": {}}}'),
        (".mcp.json", '{"mcpServers": 1}'),
    ],
)
def test_a_file_that_cannot_be_used_is_named_and_nothing_is_touched(tmp_path: Path, name: str, text: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text, encoding="utf-8")

    with pytest.raises(ConfigError, match=str(path)):
        tool.install_settings(str(tmp_path), ["cortext"])

    assert path.read_text(encoding="utf-8") == text
    assert [item for item in tmp_path.rglob("*") if item.is_file()] == [path]


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / ".mcp.json").write_bytes(b'{"a": "\xff"}')

    with pytest.raises(ConfigError, match=r"\.mcp\.json"):
        tool.install_settings(str(tmp_path), ["cortext"])

    assert list(tmp_path.iterdir()) == [tmp_path / ".mcp.json"]


# ── commands ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_command_file() -> None:
    files = tool.files(
        [
            CommandFile(
                name="workspace.plan", description='Plan: "it"', text="Topic: {arguments}\nCosts $5, not $ARGUMENTS\n"
            )
        ],
        ["cortext"],
    )

    assert files == {
        ".claude/commands/workspace.plan.md": b'---\ndescription: "Plan: \\"it\\""\n---\n\n'
        b"Topic: $ARGUMENTS\nCosts \\$5, not \\$ARGUMENTS\n"
    }


def test_a_command_that_runs_us() -> None:
    commands = [
        CommandFile(
            name="a", description="x", text="Wanted: {arguments}\n\n{run}\n\nGo on.\n", run=("resume", "--in-tool")
        ),
        CommandFile(name="b", description="x", text="Stop.\n", run=("stop", "--in-tool")),
    ]

    files = tool.files(commands, ["/opt/c", "-q"])

    first, second = (files[f".claude/commands/{name}.md"].decode() for name in "ab")
    assert 'allowed-tools: "Bash(/opt/c -q resume --in-tool:*)"\n' in first
    assert '\n\n!`/opt/c -q resume --in-tool "$ARGUMENTS"`\n\nGo on.\n' in first
    assert second.endswith("Stop.\n\n!`/opt/c -q stop --in-tool`\n")
