"""Renders commands as Codex skills: `/workspace.brainstorm` becomes `$workspace-brainstorm`.

Codex has no command files. A skill is a text that the model gets after the user's message. It takes no arguments and
runs nothing, so the text says where the arguments are and what to run.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence

from cortext.tools.base import CommandFile

_FOLDER = ".agents/skills"
_MENTION = re.compile(r"(?<![\w.$/])/workspace\.(?=\w)")
_LONGEST_DESCRIPTION = 1_000
# Only the user calls these skills: Codex must not offer them to the model.
_POLICY = b"policy:\n  allow_implicit_invocation: false\n"


def skill_name(command: str) -> str:
    """Return the name of a command as a skill, which cannot contain dots."""
    return re.sub(r"[^a-z0-9-]+", "-", command.lower()).strip("-")


def skill_files(commands: Sequence[CommandFile], program: Sequence[str]) -> dict[str, bytes]:
    """Return the files of all skills, by their path in the project."""
    files: dict[str, bytes] = {}
    for command in commands:
        folder = f"{_FOLDER}/{skill_name(command.name)}"
        files[f"{folder}/SKILL.md"] = _skill(command, program).encode("utf-8")
        files[f"{folder}/agents/openai.yaml"] = _POLICY
    return files


def _skill(command: CommandFile, program: Sequence[str]) -> str:
    name = skill_name(command.name)
    # A JSON string is a YAML string.
    description = json.dumps(" ".join(command.description.split())[:_LONGEST_DESCRIPTION], ensure_ascii=False)
    text = command.text
    run = _run(command, program, name)
    if run and "{run}" not in text:
        text = f"{{run}}\n\n{text}"
    text = text.replace("{run}", run).replace("{arguments}", f"(the text after `${name}` in the user's message)")
    text = _MENTION.sub("$workspace-", text)
    return f"---\nname: {name}\ndescription: {description}\n---\n\n{text.strip()}\n"


def _run(command: CommandFile, program: Sequence[str], name: str) -> str:
    if not command.run:
        return ""
    line = shlex.join([*program, *command.run])
    return (
        f"If this prompt contains no output of cortext (its hooks are not trusted), run `{line}` first, with the text "
        f"after `${name}` in the user's message as further arguments (none if there is none), and read its output."
    )
