"""What Claude Code gets in a project, and what it deletes by itself.

The commands are files of our own. Hooks and the MCP server are entries in the user's files (`shared.installer`).

A few seconds after a start, at most once a day, Claude Code deletes every transcript of every project whose file did
not change for `cleanupPeriodDays`. If the value is invalid, it deletes nothing. Managed settings win over the user's.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Sequence
from typing import Any

from cortext.safety.languages import shell
from cortext.tools.base import CommandFile, Purge
from cortext.tools.claude_code.adapter import ClaudeCode
from cortext.tools.shared.commands import all_hooks_off, around_the_file, file_of
from cortext.tools.shared.entries import Hooks, Server, names_in, servers_of
from cortext.tools.shared.installer import DAY, JsonConfig, Retention, SettingsFiles
from cortext.tools.shared.jsonc import read_object
from cortext.tools.shared.parts import ToolPart

# PreCompact is not needed: the transcript keeps everything. Nor are tool events: Stop comes after each whole turn.
EVENTS = ("SessionStart", "UserPromptSubmit", "UserPromptExpansion", "Stop", "PostCompact", "SessionEnd")
_RETIRED = ("PreToolUse",)  # an earlier version could ask for a process before each command
_HOOK_SECONDS = 30
# Shown while a hook takes its time; Codex and Gemini CLI show their hooks by themselves.
_RUNNING = "cortext saves the conversation"
SETTING = "cleanupPeriodDays"
DEFAULT_DAYS = 30
MANAGED = "/Library/Application Support/ClaudeCode" if sys.platform == "darwin" else "/etc/claude-code"
TEN_YEARS = 3650  # Claude Code has no value for "never"; its own messages recommend this one


class ClaudeSettings(SettingsFiles, ToolPart[ClaudeCode]):
    """Our entries in the settings of a project, and the user's setting of what is deleted."""

    def files(self, commands: Sequence[CommandFile], program: Sequence[str]) -> dict[str, bytes]:
        """Return the slash commands as files of the project."""
        return {
            f".claude/commands/{command.name}.md": _command_text(command, program).encode("utf-8")
            for command in commands
        }

    def configs(self, program: Sequence[str] = ("cortext",)) -> Sequence[JsonConfig]:
        """Return our entries: hooks in `.claude/settings.json`, the server in `.mcp.json`. Both must be plain JSON."""
        command = {"type": "command", "command": shell([*program, "hook", "claude"]), "timeout": _HOOK_SECONDS}
        hook = {**command, "statusMessage": _RUNNING}
        return [
            JsonConfig((".claude/settings.json",), [Hooks(dict.fromkeys(EVENTS, hook), retired=_RETIRED)]),
            JsonConfig((".mcp.json",), [Server.of("claude", program)]),
        ]

    def mcp_servers(self, project: str) -> set[str]:
        """Return the names of the MCP servers of the project and of the user."""
        user = os.path.join(self.tool.environ.get("CLAUDE_CONFIG_DIR") or self.tool.home, ".claude.json")
        return servers_of(user, project, ".mcp.json") | names_in(user, "projects", project, "mcpServers")

    def hooks_off(self, project: str) -> list[tuple[str, str]]:
        """Report `disableAllHooks` in the settings that apply here. The most specific file that sets it decides."""
        own = os.path.join(project, ".claude")
        names = ("settings.json", "settings.local.json")
        return all_hooks_off(
            [os.path.join(self.tool.config_folder, names[0]), *(os.path.join(own, name) for name in names)]
        )

    def purge(self) -> Purge | None:
        """Return what it will delete: transcripts that did not change for `cleanupPeriodDays`."""
        path = os.path.join(self.tool.config_folder, "settings.json")
        managed = _managed()
        value = managed if managed is not None else read_object(path).get(SETTING, DEFAULT_DAYS)
        is_whole = type(value) is int or (type(value) is float and value.is_integer())
        if not is_whole or not 0 <= value < TEN_YEARS:
            return None
        result = Purge(setting=SETTING, value=f"{value:.0f}", keeping=f"{SETTING}: {TEN_YEARS}", file=path)
        if managed is not None:
            result.is_managed = True
            result.value += " in the managed settings"
        if value == 0:
            result.note = f"{SETTING} is 0: older versions write no transcript then, and nothing can be captured"
            return result
        for transcript in self.tool.transcripts():
            try:
                # Of the main file: the fingerprint is also that of the files of subagents.
                result.due.append((transcript, os.stat(transcript.path, follow_symlinks=False).st_mtime + value * DAY))
            except OSError:
                continue  # just deleted
        return result

    def raise_retention(self, *, dry_run: bool = False) -> list[str]:
        """Set `cleanupPeriodDays` in the user's settings to ten years."""
        return self._retention().raise_it(dry_run=dry_run)

    def _retention(self) -> Retention:
        return Retention(self.tool.config_folder, (SETTING,), TEN_YEARS)

    def renew(self, key: str, *, project: str) -> None:
        """Do nothing: the time of the file counts, and a session that was just put back is a new file."""

    def restore_retention(self, *, dry_run: bool = False) -> list[str]:
        """Undo `raise_retention`."""
        return self._retention().restore(dry_run=dry_run)


def _command_text(command: CommandFile, program: Sequence[str]) -> str:
    """Return a command file. A file with the prompt is attached by Claude Code: a `!` command could need permission."""
    head = [f"description: {json.dumps(command.description, ensure_ascii=False)}"]
    output = ""
    if command.run:
        line = shell([*program, *command.run])
        head.append(f"allowed-tools: {json.dumps(f'Bash({line}:*)', ensure_ascii=False)}")
        output = f'!`{line} "$ARGUMENTS"`' if "{arguments}" in command.text else f"!`{line}`"
    # Unescaped, a dollar before a digit or ARGUMENTS would be a placeholder.
    text = re.sub(r"\$(?=\d|ARGUMENTS)", r"\\$", command.text).replace("{arguments}", "$ARGUMENTS")
    if path := file_of(command):
        # It offers the commands below the workspace, too, but takes a path from where it runs, and leaves out what does
        # not exist. A path with `..` could be a file of somebody else's, above the workspace.
        below = (
            f"If you run below the workspace, it is not attached: then read `{path}` in the nearest folder above, in "
        )
        below += "the same repository, that has it."
        typed = "what the user typed after the command (nothing, if this line ends here): $ARGUMENTS"
        text = f"@{path}\n\n{below}\n\n{around_the_file(path, typed)}\n"
    if output and "{run}" not in text:
        text = f"{text.rstrip()}\n\n{{run}}\n"
    lines = "\n".join(head)
    return f"---\n{lines}\n---\n\n{text.replace('{run}', output)}"


def _managed() -> Any:
    """Return the value in the settings of an administrator, which win over the user's; None if they have none."""
    folder = os.path.join(MANAGED, "managed-settings.d")
    added = sorted(os.listdir(folder)) if os.path.isdir(folder) else []
    paths = [os.path.join(MANAGED, "managed-settings.json"), *(os.path.join(folder, name) for name in added)]
    return next((found for path in reversed(paths) if (found := read_object(path).get(SETTING)) is not None), None)
