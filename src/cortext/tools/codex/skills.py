"""Renders commands as Codex skills: `/workspace.brainstorm` becomes `$workspace-brainstorm`.

Codex has no command files. A skill is a text that the model gets after the user's message. It takes no arguments and
runs nothing, so the text says where the arguments are and what to run.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from cortext.tools.base import CommandFile
from cortext.tools.shared.skills import skill_name, skill_text

_FOLDER = ".agents/skills"
# Only the user calls these skills: Codex must not offer them to the model.
_POLICY = b"policy:\n  allow_implicit_invocation: false\n"


def skill_files(commands: Sequence[CommandFile], program: Sequence[str]) -> dict[str, bytes]:
    """Return the files of all skills, by their path in the project."""
    files: dict[str, bytes] = {}
    for command in commands:
        name = skill_name(command.name)
        arguments = f"(the text after `${name}` in the user's message)"
        text = skill_text(command, arguments=arguments, run=_run(command, program, name), call="$")
        files[f"{_FOLDER}/{name}/SKILL.md"] = text.encode("utf-8")
        files[f"{_FOLDER}/{name}/agents/openai.yaml"] = _POLICY
    return files


def _run(command: CommandFile, program: Sequence[str], name: str) -> str:
    if not command.run:
        return ""
    line = shlex.join([*program, *command.run])
    return (
        f"If this prompt contains no output of cortext (its hooks are not trusted), run `{line}` first, with the text "
        f"after `${name}` in the user's message as further arguments (none if there is none), and read its output."
    )
