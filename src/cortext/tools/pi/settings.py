"""What Pi gets in a project: slash commands (its prompt templates), and an extension that reports to cortext.

Both are files of our own. Pi has no MCP servers, and its settings need no entry of ours.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence

from cortext.tools.base import CommandFile
from cortext.tools.pi.adapter import Pi
from cortext.tools.shared.commands import agent_skill, check_names, marked, without_run
from cortext.tools.shared.installer import packaged_script
from cortext.tools.shared.jsonc import read_object
from cortext.tools.shared.parts import ToolPart

EXTENSION = ".pi/extensions/cortext.js"
_PLACEHOLDERS = re.compile(r"\$(?=[\d@{]|ARGUMENTS)")


class PiSettings(ToolPart[Pi]):
    """Our files in a project."""

    def files(self, commands: Sequence[CommandFile], program: Sequence[str]) -> dict[str, bytes]:
        """Return the slash commands, our extension and the shared skill as files of the project."""
        check_names(commands)
        files = {f".pi/prompts/{command.name}.md": _command_text(command) for command in commands}
        files[EXTENSION] = packaged_script(__file__, "extension.js").replace(
            "__PROGRAM__", json.dumps([*program, "hook", "pi"])
        )
        return {path: text.encode("utf-8") for path, text in files.items()} | agent_skill()

    def install_settings(
        self, project: str, program: Sequence[str], *, server: bool = True, dry_run: bool = False
    ) -> list[str]:
        """Change nothing: Pi finds our files by itself, and has no MCP servers."""
        return []

    def remove_settings(self, project: str, *, dry_run: bool = False) -> list[str]:
        """Change nothing."""
        return []

    def mcp_servers(self, project: str) -> set[str]:
        """Return no names: Pi has no MCP servers."""
        return set()

    def hooks_off(self, project: str) -> list[tuple[str, str]]:
        """Report a project that Pi does not trust: then it loads neither the commands nor the extension."""
        rules = read_object(os.path.join(self.tool.agent, "trust.json"))
        folder = os.path.realpath(project)
        while folder not in rules and os.path.dirname(folder) != folder:
            folder = os.path.dirname(folder)
        trusted = rules.get(folder, self.tool.user_settings.get("defaultProjectTrust") == "always")
        return [] if trusted is True else [("it does not trust this folder yet", "run /trust in pi")]


def _command_text(command: CommandFile) -> str:
    # A word joiner keeps Pi from taking a dollar in the text for a placeholder.
    text = _PLACEHOLDERS.sub("$\u2060", without_run(command.text)).replace("{arguments}", "$ARGUMENTS")
    description = json.dumps(command.description, ensure_ascii=False)
    return f"---\ndescription: {description}\n---\n{marked(text, command.name, '$ARGUMENTS')}"
