"""What we install in a project for Kimi Code: our commands as skills, and the MCP server in `.kimi-code/mcp.json`.

Kimi Code reads hooks only from the user's `config.toml`, where they run in every folder. So a project cannot bring
them: they are added to that file if the user agrees, in a block of our own at its end.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from cortext.errors import ConfigError
from cortext.safety.languages import shell
from cortext.tools.base import CommandFile
from cortext.tools.kimi_code.adapter import CONFIG, KimiCode
from cortext.tools.shared.commands import agent_skill, skill_name, skill_text
from cortext.tools.shared.entries import Server, servers_of
from cortext.tools.shared.installer import (
    JsonConfig,
    SettingsFiles,
    TomlConfig,
    install,
    parse_toml,
    read_config,
    remove,
    toml_string,
)
from cortext.tools.shared.parts import ToolPart

MCP = ".kimi-code/mcp.json"
EVENTS = ("SessionStart", "UserPromptSubmit", "TurnStarted", "Stop", "PostCompact", "SessionEnd")
# The variable that a command line in a skill sets; Kimi Code inserts the value.
SESSION = "KIMI_SESSION_ID"
_CALL = "hook kimi"
_BEGIN = "# >>> cortext: its hooks; taken out again by cortext >>>"
_END = "# <<< cortext <<<"


class KimiSettings(SettingsFiles, ToolPart[KimiCode]):
    """Our files and entries in a project, and our hooks in the user's config."""

    def files(self, commands: Sequence[CommandFile], program: Sequence[str]) -> dict[str, bytes]:
        """Return the commands as skills, which only the user calls, and the skill about cortext."""
        files = {}
        for command in commands:
            run = ""
            if command.run:
                line = f"{SESSION}=${{{SESSION}}} {shell([*program, *command.run])}"
                run = (
                    f"Run `{line}` first, with these words as further arguments (none if there are none): $ARGUMENTS\n"
                    "Read its output."
                )
            head = ["disable-model-invocation: true"]
            text = skill_text(command, arguments="$ARGUMENTS", run=run, call="/skill:", head=head)
            files[f".kimi-code/skills/{skill_name(command.name)}/SKILL.md"] = text.encode("utf-8")
        return files | agent_skill()

    def configs(self, program: Sequence[str] = ("cortext",)) -> Sequence[JsonConfig]:
        """Return our entry in the project's list of MCP servers."""
        return [JsonConfig((MCP,), [Server.of("kimi", program)])]

    def mcp_servers(self, project: str) -> set[str]:
        """Return the names of the MCP servers in the user's and the project's lists."""
        return servers_of(os.path.join(self.tool.folder, "mcp.json"), project, ".mcp.json", MCP)

    def install_user_hooks(self, program: Sequence[str], *, dry_run: bool = False) -> list[str]:
        """Add our hooks to the user's config, those that it lacks."""
        return install(self.tool.folder, self._user_hooks(program), dry_run=dry_run)

    def remove_user_hooks(self, *, dry_run: bool = False) -> list[str]:
        """Remove our block; raise ConfigError if Kimi Code rewrote the file without the lines around it."""
        changed = remove(self.tool.folder, self._user_hooks(), dry_run=dry_run)
        path = self.tool.user_hooks_file
        if not changed and len(_missing(path, read_config(path) or "")) < len(EVENTS):
            raise ConfigError(
                f"cortext's hooks in {path} cannot be recognised: the comments that mark them are gone",
                kept="it is unchanged",
                hint=f"remove the tables [[hooks]] with the command `cortext {_CALL}`",
            )
        return changed

    def hooks_off(self, project: str) -> list[tuple[str, str]]:
        """Return which of our hooks the user's config lacks, and what to do: a project cannot bring hooks."""
        path = self.tool.user_hooks_file
        try:
            missing = _missing(path, read_config(os.path.realpath(path)) or "")
        except ConfigError as error:
            return [(error.message, error.hint)]
        if not missing:
            return []
        return [
            (
                f"it runs only the hooks in {path}, where ours for {', '.join(missing)} are missing",
                "add them with `cortext init --ai kimi --user-hooks`",
            )
        ]

    def _user_hooks(self, program: Sequence[str] = ("cortext",)) -> list[TomlConfig]:
        """Return our block in the user's config: a hook for each event that the user has not added; none if all are."""
        command = toml_string(shell([*program, "hook", "kimi"]))
        path = self.tool.user_hooks_file
        text = read_config(path) or ""
        outside = text.partition(_BEGIN)[0] + text.partition(_END)[2] if _BEGIN in text else text
        missing = _missing(path, outside)
        entry = "\n".join(f'[[hooks]]\nevent = "{event}"\ncommand = {command}' for event in missing)
        return [TomlConfig(CONFIG, "hooks", entry, begin=_BEGIN, end=_END, is_server=False)] if missing else []


def _missing(path: str, text: str) -> list[str]:
    """Return the events for which a config has no hook of ours."""
    found = parse_toml(path, text).get("hooks")
    hooks: list[Any] = found if isinstance(found, list) else []
    ours = {hook.get("event") for hook in hooks if isinstance(hook, dict) and _CALL in str(hook.get("command"))}
    return [event for event in EVENTS if event not in ours]
