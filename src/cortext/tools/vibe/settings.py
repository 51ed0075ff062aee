"""What Mistral Vibe gets in a project: skills, a hook, and the MCP server. It reads them only in trusted folders."""

from __future__ import annotations

import os
from collections.abc import Sequence

from cortext.safety.languages import shell
from cortext.tools.base import CommandFile
from cortext.tools.shared.commands import agent_skill, skill_name, text_without_arguments
from cortext.tools.shared.entries import NAME, servers_of
from cortext.tools.shared.installer import SettingsFiles, TomlConfig, toml_string
from cortext.tools.shared.parts import ToolPart
from cortext.tools.vibe.adapter import Vibe

HOOKS = ".vibe/hooks.toml"
SETTINGS = ".vibe/config.toml"
_END = "# <<< cortext <<<"


class VibeSettings(SettingsFiles, ToolPart[Vibe]):
    """Our files and entries in a project."""

    def files(self, commands: Sequence[CommandFile], program: Sequence[str]) -> dict[str, bytes]:
        """Return the commands as skills, which only the user calls, and the skill about cortext."""
        head = ("user-invocable: true", "disable-model-invocation: true")
        texts = {skill_name(command.name): text_without_arguments(command, program, "/", *head) for command in commands}
        return {f".vibe/skills/{name}/SKILL.md": text.encode("utf-8") for name, text in texts.items()} | agent_skill()

    def configs(self, program: Sequence[str] = ("cortext",)) -> Sequence[TomlConfig]:
        """Return our entries: the hook after each answer, and the MCP server. Vibe has no hook for a prompt."""
        hook = toml_string(shell([*program, "hook", "vibe"]))
        command, *arguments = map(toml_string, [*program, "mcp"])
        return [
            TomlConfig(
                HOOKS,
                "hooks",
                f'[[hooks]]\nname = "{NAME}"\ntype = "post_agent"\ncommand = {hook}\ntimeout = 30.0',
                begin="# >>> cortext: its hook; taken out again by cortext >>>",
                end=_END,
                is_server=False,
            ),
            TomlConfig(
                SETTINGS,
                "mcp_servers",
                f'[[mcp_servers]]\nname = "{NAME}"\ntransport = "stdio"\ncommand = {command}\n'
                f'args = [{", ".join(arguments)}]\nenv = {{ CORTEXT_TOOL = "vibe" }}',
                begin="# >>> cortext: its MCP server; taken out again by cortext >>>",
                end=_END,
            ),
        ]

    def mcp_servers(self, project: str) -> set[str]:
        """Return the names of the MCP servers in the user's and the project's settings."""
        return servers_of(os.path.join(self.tool.folder, "config.toml"), project, SETTINGS, key="mcp_servers")

    def hooks_off(self, project: str) -> list[tuple[str, str]]:
        """Return nothing: Vibe asks at its start whether to trust a folder, and then runs its hooks."""
        return []
