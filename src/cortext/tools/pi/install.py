"""What Pi gets in a project: slash commands (its prompt templates), and an extension that reports to cortext.

Both are files of our own. Pi has no MCP servers, and its settings need no entry of ours.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from cortext.tools.base import CommandFile
from cortext.tools.shared.installer import packaged_script
from cortext.tools.shared.typed import check_names, marked, without_run

EXTENSION = ".pi/extensions/cortext.js"
_PLACEHOLDERS = re.compile(r"\$(?=[\d@{]|ARGUMENTS)")


def project_files(commands: Sequence[CommandFile], program: Sequence[str]) -> dict[str, bytes]:
    """Return our files in a project, by path; UsageError for a command name that cannot be a file name."""
    check_names(commands)
    files = {f".pi/prompts/{command.name}.md": _command_text(command) for command in commands}
    files[EXTENSION] = packaged_script(__file__, "extension.js").replace(
        "__PROGRAM__", json.dumps([*program, "hook", "pi"])
    )
    return {path: text.encode("utf-8") for path, text in files.items()}


def _command_text(command: CommandFile) -> str:
    # A word joiner keeps Pi from taking a dollar in the text for a placeholder.
    text = _PLACEHOLDERS.sub("$\u2060", without_run(command.text)).replace("{arguments}", "$ARGUMENTS")
    description = json.dumps(command.description, ensure_ascii=False)
    return f"---\ndescription: {description}\n---\n{marked(text, command.name, '$ARGUMENTS')}"
