"""What a user typed, recognised in a prompt to which cortext or a slash command added text."""

from __future__ import annotations

import re
from collections.abc import Iterable

from cortext.errors import UsageError
from cortext.safety.framing import BEGIN
from cortext.tools.base import CommandFile

RESUMED = BEGIN
# The marker of our block begins a line. A user who only mentions it writes an ordinary message.
_RESUME_BLOCK = re.compile(rf"^{re.escape(RESUMED)}", re.MULTILINE)
# The marker of our command files in the prompt that they expand to: hooks and transcripts contain only the expansion.
COMMAND_MARK = re.compile(r"<!-- cortext:command /?([\w.:-]+) -->(.*?)<!-- cortext:end -->", re.DOTALL)
_COMMAND_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,100}")


def is_resume_block(text: str) -> bool:
    """Whether a text of role user is the context block that we added at a resume."""
    return RESUMED in text and _RESUME_BLOCK.search(text) is not None


def typed_command(text: str) -> str:
    """Return the slash command that expanded to this prompt; empty if none of ours did."""
    mark = COMMAND_MARK.search(text) if "<!-- cortext:command" in text else None
    return f"/{mark[1]} {mark[2].strip()}".rstrip() if mark else ""


def marked_prompt(command: CommandFile) -> str:
    """Return the prompt of a slash command for Gemini CLI and Qwen Code, with a marker by which it is recognised.

    Our hook also adds the output of `run`: the tools' own syntax for that asks for confirmation, fails in headless
    mode, and truncates a long output.
    """
    # The tools would expand these three: a shell command, the contents of a file, the arguments.
    text = re.sub(r"([!@])\{", r"\1 {", without_run(command.text)).replace("{{args}}", "{ {args}}")
    return marked(text.replace("{arguments}", "{{args}}"), command.name, "{{args}}")


def without_run(text: str) -> str:
    """Return the text of a command without the place of the output of `run`, which our hook adds."""
    return text.replace("{run}\n\n", "").replace("{run}", "")


def marked(text: str, name: str, arguments: str) -> str:
    """Return the text of a command file with our marker, in which the tool replaces `arguments`."""
    text = text.rstrip("\n")
    return f"{text}\n\n<!-- cortext:command {name} -->{arguments}<!-- cortext:end -->\n"


def check_names(commands: Iterable[CommandFile]) -> None:
    """Raise UsageError if the name of a command cannot be a file name."""
    for command in commands:
        if not _COMMAND_NAME.fullmatch(command.name):
            raise UsageError(
                f"invalid command name {ascii(command.name)[:60]}",
                hint="begin with a letter or digit; use letters, digits, dots, hyphens and underscores",
            )
