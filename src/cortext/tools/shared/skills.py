"""Our commands as skills, for tools that have no command files: `/workspace.brainstorm` as `workspace-brainstorm`."""

from __future__ import annotations

import json
import re

from cortext.tools.base import CommandFile

_MENTION = re.compile(r"(?<![\w.$/])/workspace\.(?=\w)")
_LONGEST_DESCRIPTION = 1_000


def skill_name(command: str) -> str:
    """Return the name of a command as a skill, which cannot contain dots."""
    return re.sub(r"[^a-z0-9-]+", "-", command.lower()).strip("-")


def skill_text(command: CommandFile, *, arguments: str, run: str, call: str, header: str = "") -> str:
    """Return the text of a SKILL.md.

    `arguments` and `run` replace {arguments} and {run}, `call` is how a user calls a skill (`$`), and `header` is added
    to the front matter.
    """
    # A JSON string is a YAML string.
    description = json.dumps(" ".join(command.description.split())[:_LONGEST_DESCRIPTION], ensure_ascii=False)
    text = command.text
    if run and "{run}" not in text:
        text = f"{{run}}\n\n{text}"
    text = text.replace("{run}", run).replace("{arguments}", arguments)
    text = _MENTION.sub(f"{call}workspace-", text)
    return f"---\nname: {skill_name(command.name)}\ndescription: {description}\n{header}---\n\n{text.strip()}\n"
