"""What goes into a project: merged with what the user has, once, and out again to the byte."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import pytest

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


# ── beside what the user has ─────────────────────────────────────────────────────────────────────────


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
