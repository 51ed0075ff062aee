"""Whether the shell and the AI tools can find `cortext`: hooks and MCP entries call it by its name."""

from __future__ import annotations

import os
import sys

from cortext.faces.terminal.style import paint
from cortext.safety import terminal


def warn_if_not_on_path() -> bool:
    """Warn on standard error if `cortext` is not on PATH, with the fix; return whether it was missing."""
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    if any(os.access(os.path.join(folder, "cortext"), os.X_OK) for folder in folders):
        return False
    called = os.path.abspath(sys.argv[0])
    program_folder = (
        os.path.dirname(called) if os.path.basename(called) == "cortext" else os.path.dirname(sys.executable)
    )
    print(
        f"{paint('warning', 'yellow', stream=sys.stderr)}: `cortext` is not on PATH: the hooks and the MCP entry of "
        "your AI tools call it by that name,\nand nothing would be captured. Add this to your shell's start-up file:\n"
        f'  export PATH="{terminal.line(program_folder)}:$PATH"',
        file=sys.stderr,
    )
    return True
