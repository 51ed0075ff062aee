"""Our commands as the files of Codex skills (`shared.skills`)."""

from __future__ import annotations

from collections.abc import Sequence

from cortext.tools.base import CommandFile
from cortext.tools.shared.skills import skill_name, text_without_arguments

_FOLDER = ".agents/skills"
# Only the user calls these skills: Codex must not offer them to the model.
_POLICY = b"policy:\n  allow_implicit_invocation: false\n"


def skill_files(commands: Sequence[CommandFile], program: Sequence[str]) -> dict[str, bytes]:
    """Return the files of all skills, by their path in the project."""
    files: dict[str, bytes] = {}
    for command in commands:
        folder = f"{_FOLDER}/{skill_name(command.name)}"
        files[f"{folder}/SKILL.md"] = text_without_arguments(command, program, "$").encode("utf-8")
        files[f"{folder}/agents/openai.yaml"] = _POLICY
    return files
