"""What Qwen Code gets in a project: slash commands, and hooks and the MCP server in `.qwen/settings.json`."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence

from cortext.safety.languages import shell
from cortext.tools.base import CommandFile
from cortext.tools.qwen_code.adapter import QwenCode
from cortext.tools.shared.commands import check_names, marked_prompt
from cortext.tools.shared.entries import Entry, Hooks, Server, servers_of
from cortext.tools.shared.hooks import all_hooks_off, trust_level
from cortext.tools.shared.installer import JsonConfig, SettingsFiles
from cortext.tools.shared.jsonc import read_object
from cortext.tools.shared.parts import ToolPart
from cortext.tools.shared.values import field

# UserPromptExpansion is not needed: UserPromptSubmit follows it, and names the command as it was typed.
EVENTS = ("SessionStart", "UserPromptSubmit", "Stop", "PostCompact", "SessionEnd")
SETTINGS = ".qwen/settings.json"
_HOOK_SECONDS = 30
_VERSION = {"$version": 4}  # Qwen Code itself adds it to settings that lack it


class QwenSettings(SettingsFiles, ToolPart[QwenCode]):
    """Our files and entries in a project."""

    def files(self, commands: Sequence[CommandFile], program: Sequence[str]) -> dict[str, bytes]:
        """Return the slash commands as files of the project; UsageError for a name that cannot be a file name."""
        check_names(commands)
        return {f".qwen/commands/{command.name}.md": _command_text(command).encode("utf-8") for command in commands}

    def configs(self, program: Sequence[str] = ("cortext",)) -> Sequence[JsonConfig]:
        """Return our entries in the project's settings."""
        hook = {"type": "command", "command": shell([*program, "hook", "qwen"]), "timeout": _HOOK_SECONDS}
        entries: list[Entry] = [Hooks(dict.fromkeys(EVENTS, hook)), Server.of("qwen", program)]
        return [JsonConfig((SETTINGS,), entries, comments=True, initial=_VERSION)]

    def mcp_servers(self, project: str) -> set[str]:
        """Return the names of the MCP servers of the project and of the user."""
        return servers_of(os.path.join(self.tool.folder, "settings.json"), project, SETTINGS)

    def hooks_off(self, project: str) -> list[tuple[str, str]]:
        """Return why our hooks would not run here (hooks turned off, folder not trusted), each with a remedy."""
        user = os.path.join(self.tool.folder, "settings.json")
        reasons = all_hooks_off([user, os.path.join(project, SETTINGS)])
        if field(read_object(user), "security", "folderTrust", "enabled") is True:
            rules = self.tool.environ.get("QWEN_CODE_TRUSTED_FOLDERS_PATH")
            level = trust_level(read_object(rules or os.path.join(self.tool.folder, "trustedFolders.json")), project)
            if level in ("", "DO_NOT_TRUST"):
                reasons.append(("it does not trust this folder", "run /trust in qwen"))
        return reasons


def _command_text(command: CommandFile) -> str:
    description = json.dumps(command.description, ensure_ascii=False)
    return f"---\ndescription: {description}\n---\n\n{marked_prompt(command)}"
