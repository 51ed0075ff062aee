"""What Copilot gets in a project: skills, a file of hooks, and the MCP server.

A skill is called like a command (`/workspace.plan TOPIC`), and its arguments are inserted. The names of the hook events
are those of Claude Code, because with them a payload says which event it is.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence

from cortext.io.inside import if_inside
from cortext.safety.languages import shell
from cortext.tools.base import CommandFile
from cortext.tools.copilot.adapter import Copilot
from cortext.tools.shared.entries import Server, servers_of
from cortext.tools.shared.hooks import all_hooks_off
from cortext.tools.shared.installer import JsonConfig, SettingsFiles
from cortext.tools.shared.parts import ToolPart

HOOKS = ".github/hooks/cortext.json"
SERVERS = ".github/mcp.json"
EVENTS = ("SessionStart", "UserPromptSubmit", "Stop", "PreCompact", "SessionEnd")
_HOOK_SECONDS = 30
_PLACEHOLDERS = re.compile(r"\$(?=\d|ARGUMENTS)")


class CopilotSettings(SettingsFiles, ToolPart[Copilot]):
    """Our files and entries in a project."""

    def files(self, commands: Sequence[CommandFile], program: Sequence[str]) -> dict[str, bytes]:
        """Return the skills and the file of hooks."""
        hook = {"type": "command", "bash": shell([*program, "hook", "copilot"]), "timeoutSec": _HOOK_SECONDS}
        hooks = {"version": 1, "hooks": {event: [hook] for event in EVENTS}}
        files = {f".github/skills/{command.name}/SKILL.md": _skill(command) for command in commands}
        files[HOOKS] = json.dumps(hooks, ensure_ascii=False, indent=2) + "\n"
        return {path: text.encode("utf-8") for path, text in files.items()}

    def configs(self, program: Sequence[str] = ("cortext",)) -> Sequence[JsonConfig]:
        """Return the MCP entry. Copilot also reads `.mcp.json`, but that is Claude Code's file."""
        return [JsonConfig((SERVERS,), [Server.of("copilot", program)])]

    def mcp_servers(self, project: str) -> set[str]:
        """Return the names of the MCP servers in the user's and the project's config."""
        return servers_of(os.path.join(self.tool.folder, "mcp-config.json"), project, ".mcp.json", SERVERS)

    def hooks_off(self, project: str) -> list[tuple[str, str]]:
        """Return why our hooks would not run here. Copilot asks at its start whether to trust a folder."""
        own = [if_inside(project, f".github/copilot/{name}") for name in ("settings.json", "settings.local.json")]
        return all_hooks_off([os.path.join(self.tool.folder, "settings.json"), *own])


def _skill(command: CommandFile) -> str:
    """Return a skill that only the user calls. The hook adds the output of `run`."""
    text = command.text.replace("{run}\n\n", "").replace("{run}", "")
    text = _PLACEHOLDERS.sub("$\u2060", text).replace("{arguments}", "$ARGUMENTS")
    description = json.dumps(" ".join(command.description.split()), ensure_ascii=False)  # a JSON string is YAML
    return (
        f"---\nname: {command.name}\ndescription: {description}\ndisable-model-invocation: true\n---\n\n"
        f"<command-name>/{command.name}</command-name>\n<command-args>$ARGUMENTS</command-args>\n\n{text.strip()}\n"
    )
