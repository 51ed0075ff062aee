"""A line for a shell, taken apart into its simple commands. Not a parser: enough to name what was run."""

from __future__ import annotations

import re

_SIMPLE = re.compile(r"""(?:[^&;\n"']|"(?:\\.|[^"\\])*"|'[^']*'|(?<!&)&(?!&)|["'])+""")
_SCRIPT = re.compile(r"\b(?:for|while|until|if|case)\b[^\n]*?(?:;|\n)\s*(?:do|then)\b|\bcase\b.*\bin\b|\w+\(\)\s*\{")
_HEREDOC = re.compile(r"(?:[\"']?\$\(\s*cat\s*)?<<-?\s*['\"]?\w")


def simple_commands(line: str) -> list[str]:
    """Return the commands that a line runs one after the other, each on one line, without a text that they are given.

    Loops and conditions stay in one piece.
    """
    heredoc = _HEREDOC.search(line)
    line = f"{line[: heredoc.start()].rstrip()} …" if heredoc else line
    line = line.replace("\\\n", " ")
    parts = [line] if _SCRIPT.search(line) else _SIMPLE.findall(line)
    return [squeezed for part in parts if (squeezed := " ".join(part.split()))]
