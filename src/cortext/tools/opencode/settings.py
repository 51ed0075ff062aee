"""What we install in a project for OpenCode: our plugin, which has the commands, and the MCP entry in its config.

If there is any plugin, OpenCode installs its own package into every config folder before it starts; without a network
it retries for over a minute. Two small npm files make it try only once (see `NPMRC`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

from cortext.io.inside import if_inside
from cortext.tools.base import CommandFile
from cortext.tools.opencode.adapter import Folders, OpenCode
from cortext.tools.shared.commands import agent_skill, file_of, without_run
from cortext.tools.shared.entries import Server
from cortext.tools.shared.installer import JsonConfig, SettingsFiles, packaged_script
from cortext.tools.shared.jsonc import read_object
from cortext.tools.shared.parts import ToolPart

FOLDER = ".opencode"
_NAMES = ("opencode.jsonc", "opencode.json")  # of its config files
PLUGIN = f"{FOLDER}/plugin/cortext.js"

NPMRC = (
    "# Written by cortext: OpenCode installs its plugin package into this folder when it starts, and waits for it.\n"
    "# Without a network it would try for more than a minute, each time.\n"
    "fetch-retries=0\n"
    "fetch-timeout=20000\n"
)
# npm reads the .npmrc beside the nearest package.json upwards: without this file, a Node.js project's own.
PACKAGE = '{\n  "private": true\n}\n'


class OpenCodeSettings(SettingsFiles, ToolPart[OpenCode]):
    """Our files and entries in a project."""

    def files(self, commands: Sequence[CommandFile], program: Sequence[str]) -> dict[str, bytes]:
        """Return our files in a project: the plugin, npm settings that keep the start short, and our skill.

        The plugin has the commands: so they need no files, and one that is typed has the prompt as it is then.
        """
        lines = [f"  {json.dumps(command.name)}: {json.dumps(_entry(command))},\n" for command in commands]
        plugin = packaged_script(__file__, "plugin.js").replace("__COMMANDS__", f"{{\n{''.join(lines)}}}")
        files = {
            PLUGIN: plugin.replace("__PROGRAM__", json.dumps([*program, "hook", "opencode"])),
            f"{FOLDER}/.npmrc": NPMRC,
            f"{FOLDER}/package.json": PACKAGE,
        }
        return {path: text.encode("utf-8") for path, text in files.items()} | agent_skill()

    def configs(self, program: Sequence[str] = ("cortext",)) -> Sequence[JsonConfig]:
        """Return the MCP entry, for whichever of OpenCode's config files the project has."""
        entry = {"type": "local", "command": [*program, "mcp"], "environment": {"CORTEXT_TOOL": "opencode"}}
        names = ("opencode.json", "opencode.jsonc")
        return [
            JsonConfig(
                (*names, *(f"{FOLDER}/{name}" for name in names)),
                [Server("mcp", entry, "environment")],
                comments=True,
                trailing_commas=True,
                initial={"$schema": "https://opencode.ai/config.json"},
            )
        ]

    def mcp_servers(self, project: str) -> set[str]:
        """Return the names of the MCP servers in the user's and the project's config that are not disabled there."""
        servers: dict[str, Any] = {}
        for settings in reversed(settings_of(project, self.tool.folders)):
            found = settings.get("mcp")
            for name, entry in found.items() if isinstance(found, dict) else ():
                earlier = servers.get(name)
                servers[name] = {
                    **(earlier if isinstance(earlier, dict) else {}),
                    **(entry if isinstance(entry, dict) else {}),
                }
        return {name for name, entry in servers.items() if entry.get("enabled") is not False}

    def hooks_off(self, project: str) -> list[tuple[str, str]]:
        """Return nothing: OpenCode loads every plugin file that it finds."""
        return []


def settings_of(project: str, folders: Folders) -> list[dict[str, Any]]:
    """Return the contents of the config files that OpenCode reads, in order of precedence."""
    paths = [if_inside(project, os.path.join(folder, name)) for folder in (FOLDER, "") for name in _NAMES]
    return [read_object(path) for path in (*paths, *(os.path.join(folders.config, name) for name in _NAMES))]


def _entry(command: CommandFile) -> dict[str, str]:
    """Return what the plugin knows of a command: its prompt or, if a file of the user has it, where that is.

    The plugin also adds the output of `run`: a command line in a command file would be passed to a shell together with
    whatever the user typed after the command.
    """
    path = file_of(command)
    prompt = {"file": path} if path else {"text": without_run(command.text).strip()}
    return {"description": command.description, **prompt}
