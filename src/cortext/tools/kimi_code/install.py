"""What we install in a project for Kimi Code: our commands as skills, and the MCP server in `.kimi-code/mcp.json`.

Kimi Code reads hooks only from the user's `config.toml`, where they run in every folder. So a project cannot bring
them, and we leave that file to the user: `hooks_off` says what to add.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from typing import Any

from cortext.errors import ConfigError
from cortext.tools.base import CommandFile
from cortext.tools.shared.entries import Server
from cortext.tools.shared.installer import JsonConfig, parse_toml, read_config
from cortext.tools.shared.skills import skill_name, skill_text

MCP = ".kimi-code/mcp.json"
EVENTS = ("SessionStart", "UserPromptSubmit", "TurnStarted", "Stop", "PostCompact", "SessionEnd")
# The variable that a command line in a skill sets; Kimi Code inserts the value.
SESSION = "KIMI_SESSION_ID"
_CALL = "hook kimi"


def configs(program: Sequence[str] = ("cortext",)) -> list[JsonConfig]:
    """Return our entry in the project's list of MCP servers."""
    return [JsonConfig((MCP,), [Server.of("kimi", program)])]


def skill_files(commands: Sequence[CommandFile], program: Sequence[str]) -> dict[str, bytes]:
    """Return the skills by path. Only the user calls them."""
    files = {}
    for command in commands:
        run = ""
        if command.run:
            line = f"{SESSION}=${{{SESSION}}} {shlex.join([*program, *command.run])}"
            run = (
                f"Run `{line}` first, with these words as further arguments (none if there are none): $ARGUMENTS\n"
                "Read its output."
            )
        head = ["disable-model-invocation: true"]
        text = skill_text(command, arguments="$ARGUMENTS", run=run, call="/skill:", head=head)
        files[f".kimi-code/skills/{skill_name(command.name)}/SKILL.md"] = text.encode("utf-8")
    return files


def hooks_off(home: str) -> list[tuple[str, str]]:
    """Return which of our hooks are missing in the user's config, and what to do."""
    path = os.path.join(home, "config.toml")
    try:
        found = parse_toml(path, read_config(os.path.realpath(path)) or "").get("hooks")
    except ConfigError as error:
        return [(error.message, error.hint)]
    hooks: list[Any] = found if isinstance(found, list) else []
    ours = {hook.get("event") for hook in hooks if isinstance(hook, dict) and _CALL in str(hook.get("command"))}
    missing = [event for event in EVENTS if event not in ours]
    if not missing:
        return []
    return [
        (
            f"it runs only the hooks in {path}, where ours for {', '.join(missing)} are missing",
            'add a table [[hooks]] with the event and command = "cortext hook kimi" for each of them',
        )
    ]
