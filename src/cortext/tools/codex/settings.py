"""Our entries in a project's `.codex` folder: hooks in hooks.json, the MCP server in config.toml.

Codex reads both files only in a project that the user trusts, and runs a hook only after the user has reviewed it. At
its next start it asks ("Hooks need review"), and stores the hash of each approved hook, by file, event and position in
the list, in the user's config.toml. So our hooks are appended to the lists, and an unchanged entry is never rewritten:
anything else would require another review.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from cortext.errors import ConfigError, UnsafePath
from cortext.io.inside import inside
from cortext.safety.languages import shell
from cortext.tools.base import CommandFile
from cortext.tools.codex.adapter import Codex
from cortext.tools.shared.commands import agent_skill, file_of, skill_name, skill_to_read, text_without_arguments
from cortext.tools.shared.entries import NAME, Hooks, servers_of
from cortext.tools.shared.installer import (
    Config,
    JsonConfig,
    SettingsFiles,
    TomlConfig,
    parse_toml,
    read_config,
    toml_string,
)
from cortext.tools.shared.parts import ToolPart

_HOOKS = ".codex/hooks.json"
_OPTIONS = {"timeout": 10}
# Without this limit, Codex would cut the middle out of an answer of more than 10,000 characters.
_CONTEXT_OPTIONS = {**_OPTIONS, "additionalContextLimit": 200_000}
_EVENTS = {
    "SessionStart": _CONTEXT_OPTIONS,
    "UserPromptSubmit": _CONTEXT_OPTIONS,
    "PostCompact": _OPTIONS,
    "Stop": _OPTIONS,
    "SessionEnd": {"timeout": 3},  # the maximum: above it, Codex warns at every start
}
_FOLDER = ".agents/skills"
# Only the user calls these skills: Codex must not offer them to the model.
_POLICY = b"policy:\n  allow_implicit_invocation: false\n"


class CodexSettings(SettingsFiles, ToolPart[Codex]):
    """Our skills and entries in a project."""

    def files(self, commands: Sequence[CommandFile], program: Sequence[str]) -> dict[str, bytes]:
        """Return the commands as skill files of the project, and the skill about cortext.

        A skill cannot include a file, so the model reads the prompt with its first tool call.
        """
        files = agent_skill()
        for command in commands:
            folder = f"{_FOLDER}/{skill_name(command.name)}"
            path = file_of(command)
            text = skill_to_read(command, path, "$") if path else text_without_arguments(command, program, "$")
            files[f"{folder}/SKILL.md"] = text.encode("utf-8")
            files[f"{folder}/agents/openai.yaml"] = _POLICY
        return files

    def configs(self, program: Sequence[str] = ("cortext",)) -> Sequence[Config]:
        """Return our entries: hooks in `.codex/hooks.json` (plain JSON), the MCP server in `.codex/config.toml`."""
        call = {"type": "command", "command": shell([*program, "hook", "codex"])}
        command, *arguments = map(toml_string, [*program, "mcp"])
        server = TomlConfig(
            ".codex/config.toml",
            "mcp_servers",
            f"[mcp_servers.{NAME}]\ncommand = {command}\nargs = [{', '.join(arguments)}]\n"
            'env = { CORTEXT_TOOL = "codex" }',
            begin="# >>> cortext: its MCP server; taken out again by cortext >>>",
            end="# <<< cortext <<<",
        )
        hooks = Hooks({event: {**call, **options} for event, options in _EVENTS.items()})
        return [JsonConfig((_HOOKS,), [hooks]), server]

    def hooks_off(self, project: str) -> list[tuple[str, str]]:
        """Report hooks that the user has not trusted yet: Codex does not run those."""
        hint = trust_hint(os.path.join(self.tool.folder, "config.toml"), project)
        return [("they are not trusted yet", hint)] if hint else []

    def mcp_servers(self, project: str) -> set[str]:
        """Return the names of the MCP servers of the project and of the user."""
        return servers_of(
            os.path.join(self.tool.folder, "config.toml"), project, ".codex/config.toml", key="mcp_servers"
        )


def trust_hint(settings: str, project: str) -> str:
    """Return what the user has to do before Codex runs our hooks; empty if its settings say that it was done."""
    hooks = os.path.realpath(inside(project, _HOOKS))
    try:
        text = read_config(os.path.realpath(settings))
        state = parse_toml(settings, text or "").get("hooks", {}).get("state", {})
        keys = [os.path.realpath(key.partition("hooks.json:")[0] + "hooks.json") for key in state]
    except (AttributeError, TypeError, ConfigError, UnsafePath):
        return ""  # the settings have an unknown form
    if keys.count(hooks) >= len(_EVENTS):
        return ""
    return 'start codex in the project once and answer "Hooks need review" with "Trust all and continue"'
