"""What Claude Code gets in a project: slash commands, hooks in its settings, and the MCP server.

The commands are files of our own. Hooks and server are entries in the user's files (`shared.installer`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from cortext.safety.languages import shell
from cortext.tools.base import CommandFile
from cortext.tools.shared.entries import Hooks, Server
from cortext.tools.shared.installer import JsonConfig

# PreCompact is not needed: the transcript keeps everything. Nor are tool events: Stop comes after each whole turn. Only
# who wants hints before a command has one (`call_config`): it costs a process for each command.
EVENTS = ("SessionStart", "UserPromptSubmit", "UserPromptExpansion", "Stop", "PostCompact", "SessionEnd")
_HOOK_SECONDS = 30


def configs(program: Sequence[str] = ("cortext",)) -> list[JsonConfig]:
    """Return our entries: hooks in `.claude/settings.json`, the server in `.mcp.json`. Both must be plain JSON."""
    hook = {"type": "command", "command": shell([*program, "hook", "claude"]), "timeout": _HOOK_SECONDS}
    return [
        JsonConfig((".claude/settings.json",), [Hooks(dict.fromkeys(EVENTS, hook))]),
        JsonConfig((".mcp.json",), [Server.of("claude", program)]),
    ]


def call_config(program: Sequence[str] = ("cortext",)) -> JsonConfig:
    """Return the hook that reports a shell command before it is run."""
    hook = {"type": "command", "command": shell([*program, "hook", "claude"]), "timeout": _HOOK_SECONDS}
    return JsonConfig((".claude/settings.json",), [Hooks({"PreToolUse": hook}, matcher="Bash", optional=True)])


def command_files(commands: Sequence[CommandFile], program: Sequence[str]) -> dict[str, bytes]:
    """Return the slash commands as files of the project, by relative path."""
    return {
        f".claude/commands/{command.name}.md": _command_text(command, program).encode("utf-8") for command in commands
    }


def _command_text(command: CommandFile, program: Sequence[str]) -> str:
    head = [f"description: {json.dumps(command.description, ensure_ascii=False)}"]
    output = ""
    if command.run:
        line = shell([*program, *command.run])
        head.append(f"allowed-tools: {json.dumps(f'Bash({line}:*)', ensure_ascii=False)}")
        output = f'!`{line} "$ARGUMENTS"`' if "{arguments}" in command.text else f"!`{line}`"
    # Unescaped, a dollar before a digit or ARGUMENTS would be a placeholder.
    text = re.sub(r"\$(?=\d|ARGUMENTS)", r"\\$", command.text).replace("{arguments}", "$ARGUMENTS")
    if output and "{run}" not in text:
        text = f"{text.rstrip()}\n\n{{run}}\n"
    lines = "\n".join(head)
    return f"---\n{lines}\n---\n\n{text.replace('{run}', output)}"
