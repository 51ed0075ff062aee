"""Installing into a project: merged with the user's settings, once, and removed without a trace."""

from __future__ import annotations

import json
import re
import stat
from pathlib import Path
from typing import Any

import pytest

from cortext.tools.base import CommandFile
from cortext.tools.claude_code.adapter import ClaudeCode
from cortext.tools.claude_code.settings import EVENTS

PROGRAM = ["/opt/my tools/cortext", "--quiet"]
HOOK = "'/opt/my tools/cortext' --quiet hook claude # cortext"

tool = ClaudeCode(home="/nowhere", environ={})


def settings(project: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads((project / ".claude/settings.json").read_text(encoding="utf-8"))
    return value


def hooks_of(project: Path, event: str) -> list[str]:
    return [hook["command"] for group in settings(project)["hooks"][event] for hook in group["hooks"]]


# ── an empty project ────────────────────────────────────────────────────────────────────────────────


@pytest.mark.req("TOOL-01")
def test_hooks_and_server_are_added_once_and_removed_without_a_trace(tmp_path: Path) -> None:
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


# ── the user's own settings ──────────────────────────────────────────────────────────────────────────


def test_what_the_user_adds_later_survives_removal(tmp_path: Path) -> None:
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


def test_another_server_of_the_same_name_is_kept(tmp_path: Path) -> None:
    text = '{"mcpServers": {"cortext": {"command": "somebody-elses", "args": ["mcp"]}}}'
    (tmp_path / ".mcp.json").write_text(text, encoding="utf-8")

    assert tool.install_settings(str(tmp_path), ["cortext"]) == [str(tmp_path / ".claude/settings.json")]
    tool.remove_settings(str(tmp_path))

    assert (tmp_path / ".mcp.json").read_text(encoding="utf-8") == text


# ── commands ─────────────────────────────────────────────────────────────────────────────────────────


def test_a_command_becomes_a_markdown_file_with_escaped_dollars() -> None:
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


def test_a_command_file_refers_to_the_file_with_the_prompt() -> None:
    plan = CommandFile(name="workspace.plan", description="x", text="# Plan\n", file=".workspace/commands/plan.md")

    text = tool.files([plan], ["cortext"])[".claude/commands/workspace.plan.md"].decode()

    assert re.findall(r"@\S+", text) == ["@.workspace/commands/plan.md"], "none above, which may be somebody else's"
    assert text.endswith("(nothing, if this line ends here): $ARGUMENTS\n")
    assert "# Plan" not in text and "allowed-tools" not in text


def test_a_command_with_a_run_line_may_execute_it() -> None:
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


def test_the_hook_before_commands_of_an_earlier_version_is_removed(tmp_path: Path) -> None:
    tool.install_settings(str(tmp_path), PROGRAM)
    path = tmp_path / ".claude/settings.json"
    before = path.read_bytes()
    earlier = settings(tmp_path)
    earlier["hooks"]["PreToolUse"] = [{"matcher": "Bash", "hooks": [{"type": "command", "command": HOOK}]}]
    path.write_text(json.dumps(earlier, indent=2) + "\n", encoding="utf-8")
    assert tool.install_settings(str(tmp_path), PROGRAM) == [str(path)]
    assert settings(tmp_path) == json.loads(before)
    tool.remove_settings(str(tmp_path))
    assert list(tmp_path.iterdir()) == []
