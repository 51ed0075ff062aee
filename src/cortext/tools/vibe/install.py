"""What Mistral Vibe gets in a project: skills, a hook, and the MCP server. It reads them only in trusted folders."""

from __future__ import annotations

from collections.abc import Sequence

from cortext.safety.languages import shell
from cortext.tools.base import CommandFile
from cortext.tools.shared.entries import NAME
from cortext.tools.shared.installer import TomlConfig, toml_string
from cortext.tools.shared.skills import skill_name, text_without_arguments

HOOKS = ".vibe/hooks.toml"
SETTINGS = ".vibe/config.toml"
_END = "# <<< cortext <<<"


def skill_files(commands: Sequence[CommandFile], program: Sequence[str]) -> dict[str, bytes]:
    """Return the files of all skills, by their path in the project. Only the user calls them."""
    head = ("user-invocable: true", "disable-model-invocation: true")
    texts = {skill_name(command.name): text_without_arguments(command, program, "/", *head) for command in commands}
    return {f".vibe/skills/{name}/SKILL.md": text.encode("utf-8") for name, text in texts.items()}


def configs(program: Sequence[str] = ("cortext",)) -> list[TomlConfig]:
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
