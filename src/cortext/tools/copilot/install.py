"""What Copilot gets in a project: skills, a file of hooks, and the MCP server.

A skill is called like a command (`/workspace.plan TOPIC`), and its arguments are inserted. The names of the hook events
are those of Claude Code, because with them a payload says which event it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from cortext.safety.languages import shell
from cortext.tools.base import CommandFile
from cortext.tools.shared.entries import Server
from cortext.tools.shared.installer import JsonConfig

HOOKS = ".github/hooks/cortext.json"
SERVERS = ".github/mcp.json"
EVENTS = ("SessionStart", "UserPromptSubmit", "Stop", "PreCompact", "SessionEnd")
_HOOK_SECONDS = 30
_PLACEHOLDERS = re.compile(r"\$(?=\d|ARGUMENTS)")
# The prompt of a called skill is its text, which the hook gets. These lines say in it what was typed.
COMMAND_MARK = re.compile(r"<command-name>/(\S+)</command-name>\n<command-args>(.*?)</command-args>", re.DOTALL)


def project_files(commands: Sequence[CommandFile], program: Sequence[str]) -> dict[str, bytes]:
    """Return our files in a project, by path."""
    hook = {"type": "command", "bash": shell([*program, "hook", "copilot"]), "timeoutSec": _HOOK_SECONDS}
    hooks = {"version": 1, "hooks": {event: [hook] for event in EVENTS}}
    files = {f".github/skills/{command.name}/SKILL.md": _skill(command) for command in commands}
    files[HOOKS] = json.dumps(hooks, ensure_ascii=False, indent=2) + "\n"
    return {path: text.encode("utf-8") for path, text in files.items()}


def _skill(command: CommandFile) -> str:
    """Return a skill that only the user calls. The hook adds the output of `run`."""
    text = command.text.replace("{run}\n\n", "").replace("{run}", "")
    text = _PLACEHOLDERS.sub("$\u2060", text).replace("{arguments}", "$ARGUMENTS")
    description = json.dumps(" ".join(command.description.split()), ensure_ascii=False)  # a JSON string is YAML
    return (
        f"---\nname: {command.name}\ndescription: {description}\ndisable-model-invocation: true\n---\n\n"
        f"<command-name>/{command.name}</command-name>\n<command-args>$ARGUMENTS</command-args>\n\n{text.strip()}\n"
    )


def configs(program: Sequence[str] = ("cortext",)) -> list[JsonConfig]:
    """Return the MCP entry. Copilot also reads `.mcp.json`, but that is Claude Code's file."""
    return [JsonConfig((SERVERS,), [Server.of("copilot", program)])]
