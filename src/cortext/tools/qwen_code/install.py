"""What Qwen Code gets in a project: slash commands, and hooks and the MCP server in `.qwen/settings.json`."""

from __future__ import annotations

import json
from collections.abc import Sequence

from cortext.safety.languages import shell
from cortext.tools.base import CommandFile
from cortext.tools.shared.entries import Entry, Hooks, Server
from cortext.tools.shared.installer import JsonConfig
from cortext.tools.shared.typed import check_names, marked_prompt

# UserPromptExpansion is not needed: UserPromptSubmit follows it, and names the command as it was typed.
EVENTS = ("SessionStart", "UserPromptSubmit", "Stop", "PostCompact", "SessionEnd")
SETTINGS = ".qwen/settings.json"
_HOOK_SECONDS = 30
_VERSION = {"$version": 4}  # Qwen Code itself adds it to settings that lack it


def configs(program: Sequence[str] = ("cortext",)) -> list[JsonConfig]:
    """Return our entries in the project's settings."""
    hook = {"type": "command", "command": shell([*program, "hook", "qwen"]), "timeout": _HOOK_SECONDS}
    entries: list[Entry] = [Hooks(dict.fromkeys(EVENTS, hook)), Server.of("qwen", program)]
    return [JsonConfig((SETTINGS,), entries, comments=True, initial=_VERSION)]


def command_files(commands: Sequence[CommandFile]) -> dict[str, bytes]:
    """Return the slash command files by path; UsageError for a name that cannot be a file name."""
    check_names(commands)
    return {f".qwen/commands/{command.name}.md": _command_text(command).encode("utf-8") for command in commands}


def _command_text(command: CommandFile) -> str:
    description = json.dumps(command.description, ensure_ascii=False)
    return f"---\ndescription: {description}\n---\n\n{marked_prompt(command)}"
