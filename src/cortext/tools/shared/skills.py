"""Commands as skills, for tools without command files: `/workspace.brainstorm` becomes `$workspace-brainstorm`.

Such a skill is a text that the model gets after the user's message. It takes no arguments and runs nothing, so the text
says where the arguments are and what to run.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence

from cortext.tools.base import CommandFile

_MENTION = re.compile(r"(?<![\w.$/])/workspace\.(?=\w)")
_LONGEST_DESCRIPTION = 1_000


def skill_name(command: str) -> str:
    """Return the name of a command as a skill, which cannot contain dots."""
    return re.sub(r"[^a-z0-9-]+", "-", command.lower()).strip("-")


def skill_text(command: CommandFile, program: Sequence[str], sign: str, *more: str) -> str:
    """Return the text of a skill that is called by its name after `sign`; `more` are further lines of its head."""
    name = skill_name(command.name)
    # A JSON string is a YAML string.
    description = json.dumps(" ".join(command.description.split())[:_LONGEST_DESCRIPTION], ensure_ascii=False)
    text = command.text
    run = _run(command, program, f"{sign}{name}")
    if run and "{run}" not in text:
        text = f"{{run}}\n\n{text}"
    text = text.replace("{run}", run).replace("{arguments}", f"(the text after `{sign}{name}` in the user's message)")
    text = _MENTION.sub(f"{sign}workspace-", text)
    head = "\n".join([f"name: {name}", f"description: {description}", *more])
    return f"---\n{head}\n---\n\n{text.strip()}\n"


def _run(command: CommandFile, program: Sequence[str], called: str) -> str:
    if not command.run:
        return ""
    line = shlex.join([*program, *command.run])
    return (
        f"If this prompt contains no output of cortext (its hooks are not trusted), run `{line}` first, with the text "
        f"after `{called}` in the user's message as further arguments (none if there is none), and read its output."
    )
