"""Our commands as skills, for tools that have no command files: `/workspace.brainstorm` as `workspace-brainstorm`."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from cortext.safety.languages import shell
from cortext.tools.base import CommandFile

_MENTION = re.compile(r"(?<![\w.$/])/workspace\.(?=\w)")
_LONGEST_DESCRIPTION = 1_000


def skill_name(command: str) -> str:
    """Return the name of a command as a skill, which cannot contain dots."""
    return re.sub(r"[^a-z0-9-]+", "-", command.lower()).strip("-")


def skill_text(command: CommandFile, *, arguments: str, run: str, call: str, head: Sequence[str] = ()) -> str:
    """Return the text of a SKILL.md.

    `arguments` and `run` replace {arguments} and {run}, `call` is how a user calls a skill (`$`), and `head` are more
    lines of the front matter.
    """
    # A JSON string is a YAML string.
    description = json.dumps(" ".join(command.description.split())[:_LONGEST_DESCRIPTION], ensure_ascii=False)
    text = command.text
    if run and "{run}" not in text:
        text = f"{{run}}\n\n{text}"
    text = text.replace("{run}", run).replace("{arguments}", arguments)
    text = _MENTION.sub(f"{call}workspace-", text)
    front = "\n".join([f"name: {skill_name(command.name)}", f"description: {description}", *head])
    return f"---\n{front}\n---\n\n{text.strip()}\n"


def text_without_arguments(command: CommandFile, program: Sequence[str], call: str, *head: str) -> str:
    """Return the text for a tool whose skills take no arguments and run nothing.

    The model gets it after the user's message, so it says where the arguments are and what to run.
    """
    called = f"{call}{skill_name(command.name)}"
    run = ""
    if command.run:
        run = (
            f"If this prompt contains no output of cortext (its hooks are not trusted), run "
            f"`{shell([*program, *command.run])}` first, with the text after `{called}` in the user's message as "
            "further arguments (none if there is none), and read its output."
        )
    arguments = f"(the text after `{called}` in the user's message)"
    return skill_text(command, arguments=arguments, run=run, call=call, head=head)
